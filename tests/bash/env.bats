#!/usr/bin/env bats
# lib/env.sh, the front door
# shellcheck disable=SC2016 # these texts are expanded by the script that they become

load helper

# Run Bash text as somebody else's script, with the arguments a and b, in a bare environment.
script() {
  printf '%s\n' "$1" >"$BATS_TEST_TMPDIR/script"
  shift
  env -i PATH="$PATH" HOME=/home/bob USER=bob TMPDIR="$BATS_TEST_TMPDIR" ENV_SH="$ROOT/lib/env.sh" \
    "$@" bash "$BATS_TEST_TMPDIR/script" a b
}

@test "env: sets the site's variables and the common ones" {
  run -0 script 'source "$ENV_SH" frontier; printenv FI_MR_CACHE_MONITOR HF_HUB_OFFLINE AMDGCN_USE_BUFFER_OPS OMP_NUM_THREADS'
  [ "${lines[*]}" = "kdreg2 1 0 7" ]
}

@test "env: every site works under set -eu, twice, and leaves the options alone" {
  for site in "$ROOT"/sites/*/; do
    site=$(basename "$site")
    run -0 --separate-stderr script "set -eu; a=\$-; source \$ENV_SH $site; source \$ENV_SH $site; [[ \$a == \$- ]]; echo \$HF_HUB_OFFLINE"
    [ "$output" = 1 ]
  done
}

@test "env: what the caller has set stays" {
  run -0 script 'source "$ENV_SH" frontier; echo "$FI_MR_CACHE_MONITOR $HF_HUB_OFFLINE $WANDB_MODE"' \
    FI_MR_CACHE_MONITOR=userfaultfd HF_HUB_OFFLINE= WANDB_MODE=online
  [ "$output" = "userfaultfd  online" ]
}

@test "env: the second time changes nothing" {
  run -0 script 'source "$ENV_SH" frontier; a=$(env); source "$ENV_SH" frontier; b=$(env); [[ $a == "$b" ]]'
}

@test "env: the caller's own first argument is no site" {
  run -2 --separate-stderr script 'source "$ENV_SH"'
  [[ $stderr == *"belongs to no known site; name one: source $ROOT/lib/env.sh SITE"*frontier* ]]
  [ "${#stderr_lines[@]}" = 1 ]
}

@test "env: a site misspelt is named, with the one that is near" {
  run -2 --separate-stderr script 'source "$ENV_SH" frontir'
  [[ $stderr == "outlast: no site frontir (did you mean frontier?), "*", and this host ("*") belongs to no known site; name one: "* ]]
  [ "${#stderr_lines[@]}" = 1 ]
  run -2 --separate-stderr script 'set -- --steps 3; source "$ENV_SH"' OUTLAST_SITE=perlmuter
  [[ $stderr == "outlast: no site perlmuter (did you mean perlmutter?), "* ]]
}

@test "env: a caller's option is not taken for a site misspelt" {
  run -2 --separate-stderr script 'set -- --steps 3; source "$ENV_SH"'
  [[ $stderr == "outlast: this host ("* ]]
}

@test "env: run instead of sourced, it says so" {
  run -2 --separate-stderr bash "$ROOT/lib/env.sh" frontier
  [[ $stderr == *"type: source $ROOT/lib/env.sh SITE" ]]
}

@test "env: on Frontier's login node nothing chooses the network of a later job" {
  run -0 script 'source "$ENV_SH" frontier; echo "${NCCL_NET-none}"'
  [ "$output" = none ]
  run -0 script 'source "$ENV_SH" frontier; echo "${NCCL_NET-none}"' SLURM_JOB_NUM_NODES=1
  [ "$output" = Socket ]
}

@test "env: a caller's first argument that is a site counts; one that is not leaves the guess" {
  run -0 script 'set -- --steps 3; source "$ENV_SH"; echo "$FI_MR_CACHE_MONITOR $1"' NERSC_HOST=perlmutter
  [ "$output" = "userfaultfd --steps" ]
}

@test "env: guesses under set -e where hostname -f fails" {
  mkdir "$BATS_TEST_TMPDIR/bin"
  printf '#!/bin/sh\nexit 1\n' >"$BATS_TEST_TMPDIR/bin/hostname"
  chmod +x "$BATS_TEST_TMPDIR/bin/hostname"
  run -0 script 'set -eu; shopt -s inherit_errexit; source "$ENV_SH"; echo "$FI_MR_CACHE_MONITOR"' NERSC_HOST=perlmutter PATH="$BATS_TEST_TMPDIR/bin:$PATH"
  [ "$output" = userfaultfd ]
}

@test "env: OUTLAST_SITE names the site, an argument comes first" {
  run -0 script 'source "$ENV_SH"; echo "$FI_MR_CACHE_MONITOR"' OUTLAST_SITE=frontier
  [ "$output" = kdreg2 ]
  run -0 script 'source "$ENV_SH" perlmutter; echo "$FI_MR_CACHE_MONITOR"' OUTLAST_SITE=frontier
  [ "$output" = userfaultfd ]
}

# A folder of sites with `lake` and another `frontier` in it.
outside() {
  local site
  for site in lake frontier; do
    mkdir -p "$BATS_TEST_TMPDIR/mine/$site"
    printf 'name = "%s"\nranks_per_node = 1\nhosts = ["lake[0-9]+"]\n' "$site" >"$BATS_TEST_TMPDIR/mine/$site/site.toml"
    printf 'ol_site_modules() { :; }\nol_site_env() { ol_environment_default WHENCE mine-%s; }\n' "$site" >"$BATS_TEST_TMPDIR/mine/$site/env.sh"
  done
}

@test "env: a site from outside, by OUTLAST_SITES; it comes before one of the same name" {
  outside
  run -0 script 'source "$ENV_SH" lake; echo "$WHENCE $HF_HUB_OFFLINE"' OUTLAST_SITES="/nowhere:$BATS_TEST_TMPDIR/mine"
  [ "$output" = "mine-lake 1" ]
  run -0 script 'source "$ENV_SH" frontier; echo "$WHENCE ${FI_MR_CACHE_MONITOR-none}"' OUTLAST_SITES="$BATS_TEST_TMPDIR/mine"
  [ "$output" = "mine-frontier none" ]
}

@test "env: guesses a site from outside, too" {
  outside
  rm -r "$BATS_TEST_TMPDIR/mine/frontier"
  run -0 script 'HOSTNAME=lake7; source "$ENV_SH"; echo "$WHENCE"' OUTLAST_SITES="$BATS_TEST_TMPDIR/mine"
  [ "$output" = mine-lake ]
}

@test "env: an unknown site changes nothing" {
  run -0 --separate-stderr script 'look() { compgen -v; declare -F; export -p; shopt; set -o; echo "$PWD $IFS" "$@"; }
    rc=0 a="" b=""; a=$(look "$@"); source "$ENV_SH" nowhere || rc=$?; b=$(look "$@"); diff <(echo "$a") <(echo "$b"); exit $((rc - 2))'
  [ -z "$output" ]
}

@test "env: a path is no site" {
  run -2 --separate-stderr script 'source "$ENV_SH" ../sites/frontier'
}

@test "env: online only where the site has a proxy" {
  run -0 script 'source "$ENV_SH" frontier; echo "$https_proxy ${HF_HUB_OFFLINE-none}"' OUTLAST_ONLINE=1
  [ "$output" = "http://proxy.ccs.ornl.gov:3128/ none" ]
  run -0 script 'source "$ENV_SH" slurm; echo "${https_proxy-none} $HF_HUB_OFFLINE"' OUTLAST_ONLINE=1
  [ "$output" = "none 1" ]
}

@test "env: online without a proxy where the site needs none" {
  run -0 script 'source "$ENV_SH" clariden; echo "${https_proxy-none} ${HF_HUB_OFFLINE-none}"' OUTLAST_ONLINE=1
  [ "$output" = "none none" ]
}

@test "env: the caches are in a folder that is ours alone" {
  run -0 script 'source "$ENV_SH" local; echo "$TRITON_CACHE_DIR"; stat -c %a "${TRITON_CACHE_DIR%/*}"'
  [ "${lines[0]}" = "$BATS_TEST_TMPDIR/outlast-bob/triton" ]
  [ "${lines[1]}" = 700 ]
}

@test "env: a folder of that name that is somebody else's is not used" {
  ((EUID == 0)) || skip "giving a folder away takes root"
  mkdir "$BATS_TEST_TMPDIR/outlast-bob"
  chown 12345 "$BATS_TEST_TMPDIR/outlast-bob"
  run -0 script 'source "$ENV_SH" local; echo "$TRITON_CACHE_DIR"'
  [[ $output != "$BATS_TEST_TMPDIR/outlast-bob/"* ]]
}

@test "env: through a symlink, from any folder, with a relative path" {
  ln -s "$ROOT/lib/env.sh" "$BATS_TEST_TMPDIR/link"
  run -0 script "source '$BATS_TEST_TMPDIR/link' frontier; echo \$FI_MR_CACHE_MONITOR"
  [ "$output" = kdreg2 ]
  run -0 script "cd '$ROOT/lib'; source env.sh frontier; echo \$FI_MR_CACHE_MONITOR"
  [ "$output" = kdreg2 ]
}

@test "env: leaves no variable of its own behind" {
  run -0 script 'source "$ENV_SH" frontier; compgen -v _ol_ || echo none'
  [ "$output" = none ]
}

@test "env: another shell is told, in one line" {
  run ! dash -c ". $ROOT/lib/env.sh"
  [[ $output == *"lib/env.sh is for bash"* ]]
}
