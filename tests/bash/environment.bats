#!/usr/bin/env bats
# lib/environment.sh
# shellcheck disable=SC2030,SC2031,SC2154 # a test is a subshell, and that is wanted; variables come from the functions under test

load helper

setup() {
  unset "${!NCCL_@}" "${!GLOO_@}" "${!TP_@}" "${!HF_@}" "${!WANDB_@}" "${!PIP_@}" "${!AMDGCN_@}" OMP_NUM_THREADS
  # shellcheck source=lib/log.sh
  source "$ROOT/lib/log.sh"
  # shellcheck source=lib/environment.sh
  source "$ROOT/lib/environment.sh"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH
  mkdir "$BATS_TEST_TMPDIR/bin"
}

# A command NAME that prints what stands on stdin, whatever it is asked.
fake() {
  { printf '#!/bin/bash\ncat <<"END"\n' && cat && printf 'END\n'; } >"$BATS_TEST_TMPDIR/bin/$1"
  chmod +x "$BATS_TEST_TMPDIR/bin/$1"
}

# A host with four fast interfaces, one of them with a label of its own, and a slow one.
fake_frontier() {
  cat >"$BATS_TEST_TMPDIR/bin/ip" <<'END'
#!/bin/bash
case $* in
  *address*)
    printf '%s\n' '1: lo    inet 127.0.0.1/8 scope host lo\       valid_lft forever preferred_lft forever'
    printf '%s\n' '2: bond0    inet 10.1.0.7/16 brd 10.1.255.255 scope global noprefixroute bond0\       valid_lft forever'
    printf '%s\n' '3: hsn0    inet 10.129.0.7/16 brd 10.129.255.255 scope global hsn0:chn\       valid_lft forever'
    printf '%s\n' '4: hsn1    inet 10.130.0.7/16 scope global hsn1\       valid_lft forever'
    printf '%s\n' '5: hsn10    inet 10.131.0.7/16 scope global hsn10\       valid_lft forever'
    ;;
  *10.129.0.9*) echo '10.129.0.9 dev hsn0 src 10.129.0.7 uid 0 \    cache' ;;
  *10.1.0.9*) echo '10.1.0.9 via 10.1.0.1 dev bond0 src 10.1.0.7 uid 0 \    cache' ;;
  *10.129.0.7*) echo 'local 10.129.0.7 dev lo src 10.129.0.7 uid 0 \    cache <local>' ;;
  *127.0.0.1*) echo 'local 127.0.0.1 dev lo src 127.0.0.1 uid 0 \    cache <local>' ;;
  *) exit 2 ;;
esac
END
  chmod +x "$BATS_TEST_TMPDIR/bin/ip"
}

@test "default: keeps what the caller has set, an empty value too" {
  A=1 B=
  ol_environment_default A 2
  ol_environment_default B 2
  ol_environment_default C 2
  [ "$A-$B-$C" = 1--2 ]
  run -0 printenv C
}

@test "offline: the libraries ask nobody, and the cache is the one a login node fills" {
  HOME=/home/bob
  unset XDG_CACHE_HOME
  ol_environment_offline
  [ "$HF_HUB_OFFLINE$TRANSFORMERS_OFFLINE$HF_DATASETS_OFFLINE$PIP_NO_INDEX" = 1111 ]
  [ "$WANDB_MODE $HF_HOME" = "offline /home/bob/.cache/huggingface" ]
}

@test "online: the proxy in both spellings, and no offline switch" {
  unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY no_proxy NO_PROXY
  ol_environment_online http://proxy:1/ '*.gov'
  [ "$http_proxy $HTTPS_PROXY $no_proxy $NO_PROXY" = 'http://proxy:1/ http://proxy:1/ *.gov *.gov' ]
  [ -z "${HF_HUB_OFFLINE:-}" ]
}

@test "caches: every compiler's folder is on the node" {
  unset TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR MIOPEN_USER_DB_PATH MIOPEN_CUSTOM_CACHE_DIR ROCFFT_RTC_CACHE_PATH CUDA_CACHE_PATH
  ol_environment_caches /mnt/bb/bob
  for name in TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR MIOPEN_USER_DB_PATH MIOPEN_CUSTOM_CACHE_DIR ROCFFT_RTC_CACHE_PATH CUDA_CACHE_PATH; do
    [[ ${!name} == /mnt/bb/bob/* ]]
  done
}

@test "threads: 0 leaves them to the library" {
  ol_environment_threads 0
  [ -z "${OMP_NUM_THREADS:-}" ]
  ol_environment_threads 7
  [ "$OMP_NUM_THREADS" = 7 ]
}

@test "wandb: the same ID in every job, without characters that wandb refuses" {
  ol_environment_wandb "a:b/c d?e-bob"
  [ "$WANDB_RUN_ID $WANDB_RESUME" = "a-b-c-d-e-bob allow" ]
}

@test "gpu: only gfx90a goes without buffer operations" {
  ol_environment_gpu gfx942
  [ -z "${AMDGCN_USE_BUFFER_OPS:-}" ]
  ol_environment_gpu gfx90a
  [ "$AMDGCN_USE_BUFFER_OPS$AMDGCN_USE_BUFFER_ATOMICS" = 00 ]
}

@test "interface: the label of the address that the route starts from" {
  fake_frontier
  run -0 ol_environment_interface 10.129.0.9
  [ "$output" = hsn0:chn ]
  run -0 ol_environment_interface 10.1.0.9
  [ "$output" = bond0 ]
}

@test "interface: for this host's own address the one that has it, not lo" {
  fake_frontier
  run -0 ol_environment_interface 10.129.0.7
  [ "$output" = hsn0:chn ]
}

@test "interface: 1 without a route, 2 without ip" {
  fake_frontier
  run -1 ol_environment_interface 192.0.2.1
  ip() { return 127; }
  fake ip </dev/null
  run -2 ol_environment_interface 192.0.2.1
}

@test "interface: on this machine" {
  run -0 ol_environment_interface 127.0.0.1
  [ "$output" = lo ]
}

@test "network: NCCL gets those of the site's interfaces that exist, Gloo the one towards the master" {
  fake_frontier
  ol_environment_network 10.129.0.9 hsn0 hsn1 hsn2 hsn3
  [ "$NCCL_SOCKET_FAMILY $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME $TP_SOCKET_IFNAME" = "AF_INET hsn0,hsn1 hsn0:chn hsn0:chn" ]
}

@test "network: without names from the site, the interface towards the master" {
  fake_frontier
  ol_environment_network 10.1.0.9
  [ "$NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME" = "bond0 bond0" ]
}

@test "network: one machine that talks to itself uses lo, whatever the site has" {
  fake_frontier
  ol_environment_network 127.0.0.1 hsn0
  [ "$NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME" = "lo lo" ]
}

@test "network: with nothing found it says so and names no interface" {
  fake ip </dev/null
  ol_environment_network 10.129.0.9 hsn0 2>"$BATS_TEST_TMPDIR/err" || status=$?
  [ "$status" = 1 ]
  grep -q 'no network interface found towards 10.129.0.9' "$BATS_TEST_TMPDIR/err"
  [ -z "${NCCL_SOCKET_IFNAME:-}${GLOO_SOCKET_IFNAME:-}" ]
}

@test "master: the one address, though getent prints it three times and 127.0.1.1 too" {
  printf '%s\n' '127.0.1.1 STREAM n1' '10.0.0.5 STREAM n1' '10.0.0.5 DGRAM' '10.0.0.5 RAW' | fake getent
  run -0 --separate-stderr ol_environment_master n1
  [ "$output" = 10.0.0.5 ]
}

@test "master: several addresses are FATAL, in one line" {
  printf '%s\n' '10.0.0.5 STREAM n1' '10.0.0.6 STREAM' | fake getent
  run -1 --separate-stderr ol_environment_master n1
  [ "${#stderr_lines[@]}" = 1 ]
  [[ $stderr == *FATAL*"n1 must have one IPv4 address"*"has 2"*"10.0.0.5 10.0.0.6"* && -z $output ]]
}

@test "master: only a loopback address is FATAL" {
  printf '%s\n' '127.0.0.1 STREAM n1' | fake getent
  run -1 --separate-stderr ol_environment_master n1
  [[ $stderr == *FATAL*"has 0"*127.0.0.1* ]]
}

@test "master: what no other node can reach is no address, nor is what is none" {
  local address
  for address in 169.254.1.1 224.0.0.1 255.255.255.255 999.1.1.1 0.1.2.3 10.0.0 010.0.0.5 fe80::1 'a;b'; do
    printf '%s\n' "$address STREAM n1" '10.0.0.5 STREAM' | fake getent
    run -0 ol_environment_master n1
    [ "$output" = 10.0.0.5 ]
  done
}

@test "master: an unknown host is FATAL, under set -e too" {
  printf '#!/bin/bash\nexit 2\n' >"$BATS_TEST_TMPDIR/bin/getent"
  chmod +x "$BATS_TEST_TMPDIR/bin/getent"
  run -1 --separate-stderr bash -ec "source $ROOT/lib/log.sh; source $ROOT/lib/environment.sh; ol_environment_master nowhere; echo on"
  [[ $stderr == *FATAL* && $output != *on* ]]
}

@test "master: with a suffix the short name on the fast network, and of its ports the first" {
  printf '%s\n' '10.0.1.7 STREAM n1' '10.0.0.5 STREAM' '10.0.0.5 DGRAM' | fake getent
  # shellcheck disable=SC2016 # expanded by the fake
  sed -i 's/^cat/echo "$@" >"${BASH_SOURCE[0]}.asked"; cat/' "$BATS_TEST_TMPDIR/bin/getent"
  OUTLAST_MASTER_SUFFIX=.hsn.example run -0 ol_environment_master n1.mgmt.example
  [ "$output" = 10.0.0.5 ]
  [ "$(<"$BATS_TEST_TMPDIR/bin/getent.asked")" = "ahostsv4 n1.hsn.example" ]
}

@test "fact: Bash reads every plain value of every site as Python does" {
  for file in "$ROOT"/sites/*/site.toml; do
    python3 - "$file" >"$BATS_TEST_TMPDIR/want" <<'END'
import sys, tomllib
for key, value in tomllib.load(open(sys.argv[1], "rb")).items():
    if not isinstance(value, dict):
        for item in value if isinstance(value, list) else [value]:
            print(key, str(item).lower() if isinstance(item, bool) else item)
END
    cut -d ' ' -f 1 "$BATS_TEST_TMPDIR/want" | uniq | while read -r key; do
      ol_environment_fact "$file" "$key" | sed "s,^,$key ,"
    done >"$BATS_TEST_TMPDIR/got"
    diff "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/got"
  done
}

@test "fact: 1 for a key that the file lacks, also where a table has it" {
  run -1 ol_environment_fact "$ROOT/sites/frontier/site.toml" partition
}

@test "site: by the host's name, short or long" {
  run -0 ol_environment_site "$ROOT/sites" frontier01234
  [ "$output" = frontier ]
  run -0 ol_environment_site "$ROOT/sites" login05 login05.frontier.olcf.ornl.gov
  [ "$output" = frontier ]
}

@test "site: by the names of the nodes that are one machine's alone" {
  while read -r host site; do
    run -0 ol_environment_site "$ROOT/sites" "$host"
    [ "$output" = "$site" ]
  done <<'END'
x4407c6s2b0n0 aurora
x4407c6s2b0n0.hostmgmt2407.cm.aurora.alcf.anl.gov aurora
aurora-uan-0009 aurora
x3104c0s1b0n0.hsn.cm.polaris.alcf.anl.gov polaris
polaris-login-02 polaris
x1921c1s0b0n0-hsn0.hsn.cm.sunspot.alcf.anl.gov sunspot
lrdn0249 leonardo
jpbo-012-39 jupiter
clariden-ln001 clariden
END
}

@test "site: by the variable that a site sets on all its nodes" {
  NERSC_HOST=perlmutter run -0 ol_environment_site "$ROOT/sites" nid001234
  [ "$output" = perlmutter ]
}

@test "site: no guess from half a name" {
  run -1 ol_environment_site "$ROOT/sites" frontier012345 xfrontier01234 login05 nid001234
}

@test "site: of two with the same name the one in the first folder" {
  mkdir -p "$BATS_TEST_TMPDIR/"{near,far}/lake
  echo "hosts = ['n[0-9]+']" >"$BATS_TEST_TMPDIR/near/lake/site.toml"
  echo "hosts = ['m[0-9]+']" >"$BATS_TEST_TMPDIR/far/lake/site.toml"
  sites=$BATS_TEST_TMPDIR/near:$BATS_TEST_TMPDIR/far
  run -0 ol_environment_site "$sites" n1
  [ "$output" = lake ]
  run -1 ol_environment_site "$sites" m1
  run -0 ol_environment_folder ":$sites" lake
  [ "$output" = "$BATS_TEST_TMPDIR/near/lake" ]
  run -1 ol_environment_folder "$sites" near/lake
}

@test "site: no guess where two fit" {
  mkdir -p "$BATS_TEST_TMPDIR/sites/"{a,b}
  echo "hosts = ['n[0-9]+']" | tee "$BATS_TEST_TMPDIR/sites/a/site.toml" >"$BATS_TEST_TMPDIR/sites/b/site.toml"
  run -1 ol_environment_site "$BATS_TEST_TMPDIR/sites" n1
}

@test "job: a job's settings, all at once, under set -eu" {
  fake_frontier
  run -0 bash -euc "
    source $ROOT/lib/log.sh; source $ROOT/lib/environment.sh
    unset \"\${!HF_@}\"
    MASTER_ADDR=10.129.0.9 OUTLAST_ONLINE=0 OUTLAST_LOCAL=/mnt/bb/bob/x OUTLAST_THREADS=7 OUTLAST_RUN=r OUTLAST_TOKEN=t USER=bob
    OUTLAST_DETERMINISM=1 OUTLAST_GPU_ARCH=gfx90a OUTLAST_NET_INTERFACES=(hsn0 hsn1)
    ol_environment_job
    echo \$NCCL_SOCKET_IFNAME \$OMP_NUM_THREADS \$WANDB_RUN_ID \$CUBLAS_WORKSPACE_CONFIG \$AMDGCN_USE_BUFFER_OPS \$HF_HUB_OFFLINE"
  [ "$output" = "hsn0,hsn1 7 r-bob :4096:8 0 1" ]
}

@test "sites: sourcing env.sh defines its two functions and does nothing else" {
  for file in "$ROOT"/sites/*/env.sh; do
    # shellcheck disable=SC2016 # expanded by the child
    run -0 env -i PATH="$PATH" bash -euc 'look() { compgen -v; export -p; shopt; set -o; trap; echo "$PWD $IFS"; }
      a="" b="" f=$(declare -F); a=$(look); source "$1"; b=$(look)
      diff <(echo "$a") <(echo "$b") && diff <(echo "$f") <(declare -F) | grep "^[<>]" | sort' _ "$file"
    [ "$output" = $'> declare -f ol_site_env\n> declare -f ol_site_modules' ]
  done
}

@test "sites: ol_site_env keeps what is set, and takes set -eu" {
  for file in "$ROOT"/sites/*/env.sh; do
    # shellcheck disable=SC2016 # expanded by the child
    run -0 env -i PATH="$PATH" FI_MR_CACHE_MONITOR=mine bash -euc 'source "$1/lib/environment.sh"; source "$2"; ol_site_env; echo "$FI_MR_CACHE_MONITOR"' _ "$ROOT" "$file"
    [ "$output" = mine ]
  done
}

@test "frontier: RCCL must find its plugin with several nodes, and cannot with one" {
  source "$ROOT/sites/frontier/env.sh"
  unset NCCL_NET
  SLURM_JOB_NUM_NODES=2 ol_site_env
  [ "$NCCL_NET" = OFI ]
  unset NCCL_NET
  SLURM_JOB_NUM_NODES=1 ol_site_env
  [ "$NCCL_NET" = Socket ]
}

@test "frontier: the rendezvous settings come only with the protocol that asks for them" {
  source "$ROOT/sites/frontier/env.sh"
  unset "${!FI_CXI_@}"
  ol_site_env
  [ -z "${FI_CXI_RDZV_GET_MIN:-}${FI_CXI_RDZV_PROTO:-}" ]
  FI_CXI_RDZV_PROTO=alt_read
  ol_site_env
  [ "$FI_CXI_RDZV_GET_MIN" = 0 ]
}

@test "aurora: a module that loads nothing, with status 0, is not taken for loaded" {
  source "$ROOT/sites/aurora/env.sh"
  module() { :; }
  LOADEDMODULES=mpich/5:myframeworks/1 run -1 ol_site_modules
  [[ $output == *"loaded nothing"* ]]
  LOADEDMODULES=mpich/5:frameworks/2025.3.1 run -0 ol_site_modules
  [ -z "$output" ]
}

@test "aurora: PBS's TMPDIR is too long for a socket's name; another one stays" {
  source "$ROOT/sites/aurora/env.sh"
  TMPDIR=/var/tmp/pbs.123.aurora-pbs-0001.hostmgmt.cm.aurora.alcf.anl.gov
  ol_site_env
  [ "$TMPDIR" = /tmp ]
  TMPDIR=/tmp/mine
  ol_site_env
  [ "$TMPDIR" = /tmp/mine ]
}

@test "polaris: a conda that activates nothing is not taken for loaded" {
  source "$ROOT/sites/polaris/env.sh"
  module() { :; }
  conda() { :; }
  CONDA_PREFIX='' run -1 ol_site_modules
  CONDA_PREFIX=/soft/conda run -0 ol_site_modules
}

@test "perlmutter: in a job on whole nodes the GPUs stand in the order of the cores, unless the caller has chosen" {
  source "$ROOT/sites/perlmutter/env.sh"
  unset CUDA_VISIBLE_DEVICES SLURM_JOB_ID
  ol_site_env
  [ -z "${CUDA_VISIBLE_DEVICES+set}" ] # a login node
  SLURM_JOB_ID=7
  ol_site_env
  [ "$CUDA_VISIBLE_DEVICES" = 3,2,1,0 ]
  CUDA_VISIBLE_DEVICES=0,1,2,3 # Slurm's
  ol_site_env
  [ "$CUDA_VISIBLE_DEVICES" = 3,2,1,0 ]
  CUDA_VISIBLE_DEVICES=0,1 # a part of a node
  ol_site_env
  [ "$CUDA_VISIBLE_DEVICES" = 0,1 ]
  CUDA_VISIBLE_DEVICES=''
  ol_site_env
  [ -z "$CUDA_VISIBLE_DEVICES" ]
}

@test "polaris: the GPUs stand in the order of the cores, unless the caller has chosen" {
  source "$ROOT/sites/polaris/env.sh"
  unset CUDA_VISIBLE_DEVICES
  ol_site_env
  [ "$CUDA_VISIBLE_DEVICES" = 3,2,1,0 ]
  CUDA_VISIBLE_DEVICES=0
  ol_site_env
  [ "$CUDA_VISIBLE_DEVICES" = 0 ]
}
