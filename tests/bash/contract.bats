#!/usr/bin/env bats
# The contract of lib/: sourcing a file, twice, under any shell options, defines ol_ functions and nothing else
# shellcheck disable=SC2016 # text for a shell of its own
load helper

# Every lib file but the front door, which acts on whoever sources it.
lib_files() { find "$ROOT/lib" -name '*.sh' ! -name env.sh | sort; }

# What a shell can tell about itself. Left out: what each command changes.
SELF='self() {
  declare -p | grep -vE "^declare -[a-zA-Z-]+ (BASH_[A-Z]+|BASHPID|LINENO|RANDOM|SRANDOM|EPOCH[A-Z]+|SECONDS|PIPESTATUS|FUNCNAME|_)(=|$)"
  trap -p; set -o; shopt -p; umask; pwd; alias -p; ulimit -n
  declare -F | grep -v " _\?ol_"
}'

# Source each file twice in a shell with these OPTIONS; says which one changed what.
changes() { # OPTIONS
  local file
  while read -r file; do
    FILE=$file OUT=$BATS_TEST_TMPDIR/out bash --norc -c "$SELF"'
      cd /tmp; trap "echo mine" USR1; IFS=:; umask 027; x=mine; '"$1"'
      self >|"$OUT.before"
      source "$FILE" >|"$OUT" 2>&1 && source "$FILE" >>"$OUT" 2>&1 || echo "status $?"
      self >|"$OUT.after"
      [[ ! -s $OUT ]] || echo "it printed: $(<"$OUT")"
      diff "$OUT.before" "$OUT.after"
      [[ -n $(compgen -A function ol_; compgen -A function _ol_) ]] || echo "defines nothing"' 2>&1 |
      sed "s|^|${file#"$ROOT"/}: |"
  done < <(lib_files)
}

@test "contract: as a user sources it" {
  run -0 changes ':'
  [ "$output" = "" ] || { echo "$output" && false; }
}

@test "contract: under -eu and pipefail" {
  run -0 changes 'set -euo pipefail; set -ETC'
  [ "$output" = "" ] || { echo "$output" && false; }
}

@test "contract: under options that change how words and patterns are read" {
  run -0 changes 'shopt -s nullglob failglob extglob dotglob nocasematch nocaseglob; set -f; set -a'
  [ "$output" = "" ] || { echo "$output" && false; }
}

@test "contract: under posix" {
  run -0 changes 'set -o posix'
  [ "$output" = "" ] || { echo "$output" && false; }
}

@test "contract: no arguments of the caller are taken for the file's own" {
  run -0 changes 'set -- --help -x'
  [ "$output" = "" ] || { echo "$output" && false; }
}

# FUNCTION FILE of every function that lib defines, drivers as `scheduler`.
definitions() {
  local file
  while read -r file; do
    grep -oE '^_?ol_[a-z0-9_]+\(\)' "$file" | sed "s|()| ${file#"$ROOT"/lib/}|"
  done < <(lib_files) | sed -E 's/\.sh$//; s| scheduler/.*| scheduler|'
}

@test "contract: a file names in its header the files whose functions it calls" {
  local file name function owner missing='' needs
  declare -A owners
  while read -r function owner; do owners[$function]=$owner; done < <(definitions)
  while read -r file; do
    name=${file#"$ROOT"/lib/} name=${name%.sh}
    [[ $name != scheduler/* ]] || name=scheduler
    needs=", $(sed -nE 's/^# Needs +//p' "$file"),"
    while read -r function; do
      owner=${owners[$function]:-}
      [[ -z $owner || $owner == "$name" || $owner == scheduler || $needs == *", $owner,"* ]] || missing+="$name calls $function of $owner"$'\n'
    done < <(grep -vE '^ *#' "$file" | grep -oE '\b_?ol_[a-z0-9_]+\b' | sort -u)
  done < <(lib_files)
  [ "$missing" = "" ] || { echo "$missing" && false; }
}

@test "contract: two files do not define the same function" {
  run -0 bash -c 'grep -v " scheduler$" | cut -d" " -f1 | sort | uniq -d' < <(definitions)
  [ "$output" = "" ] || { echo "$output" && false; }
}

@test "contract: every driver has the same functions for others to call" {
  local driver
  # One may have more (PBS wants a shell); what others call must be in all, or be asked for.
  ol_sched_of() { grep -oE '^ol_sched_[a-z_]+' "$ROOT/lib/scheduler/$1.sh" | sort; }
  for driver in "$ROOT"/lib/scheduler/*.sh; do
    driver=${driver##*/}
    [ "$(comm -23 <(ol_sched_of slurm) <(ol_sched_of "${driver%.sh}"))" = "" ]
  done
}

@test "contract: every driver has a world in which it is asked the questions of tests/driver" {
  local driver
  for driver in "$ROOT"/lib/scheduler/*.sh; do
    driver=${driver##*/}
    [ -e "$ROOT/tests/driver/worlds/${driver%.sh}.bash" ]
  done
}

@test "contract: no other file knows a scheduler's command" {
  run -1 grep -nE '^[^#]*(^|[ ("])(sbatch|squeue|scontrol|scancel|sinfo|srun|qsub|qstat|qdel|pbsnodes) ' \
    -r "$ROOT/lib" --include='*.sh' --exclude-dir=scheduler
}
