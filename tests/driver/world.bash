# shellcheck shell=bash
# tests/driver/world.bash - how questions reach a driver: where the user submits jobs, and inside a job
#
# Functions
#   ask CMD...               ask the driver where jobs are submitted, in folder FROM; output and status are its own
#   submit LABEL [OPTION]... submit a job of tests/driver/job.bash with options of ol_sched_submit: ID, JOB[LABEL]
#   start LABEL [OPTION]...  the same, and wait until its script runs
#   in_job LABEL CMD...      ask the driver inside that job; 99: the job does not answer
#   nodes_of LABEL           set NODE to its nodes, LAST to the last one
#   told_to_end LABEL        wait until TERM has reached its script
#   end LABEL [CODE]         tell it to end with that code
#   is ID WORDS, becomes ID WORDS    does ol_sched_state print that (a pattern)? wait until it does
#   has WORD, needs WORD     does this world not lack that? skip the test where it does
#
# Reads    WORLD, the name of a driver and of worlds/WORLD.bash, which describes itself in worlds/slurm.bash
# shellcheck disable=SC2154 # world_… are the adapter's
load ../bash/helper

: "${WORLD:=local}"
# shellcheck source=worlds/slurm.bash
source "$ROOT/tests/driver/worlds/$WORLD.bash"

setup_world() {
  HERE=$world_folder/$BATS_TEST_NUMBER
  DISK=$world_disk/$BATS_TEST_NUMBER
  declare -gA JOB=()
  folder ''
}

# Whatever a test leaves behind must not be in the way of the next one.
teardown_world() {
  local label
  for label in "${!JOB[@]}"; do end "$label" 0; done
  world_alive
  ((${#JOB[@]} == 0)) || ask ol_sched_cancel "${JOB[@]}" || true
}

# A folder of the user's in this test's folder.
folder() { mkdir -p "$DISK/$1" && chown "$world_user" "$DISK/$1"; }

# As the verbs do it (pyhelpers/outlast/driver.py).
ask() {
  # bats waits for whoever holds its descriptor 3.
  # shellcheck disable=SC2016 # expanded in the world
  world_as_user bash -c 'cd "$1" && for file in log bounded "scheduler/$3"; do source "$2/lib/$file.sh"; done && shift 3 && "$@"' \
    ask "${FROM:-$world_folder}" "$ROOT" "$WORLD" "$@" 3>&-
}

name_of() { printf 'questions.%d.%s\n' "$BATS_TEST_NUMBER" "$1"; }

script() { # LABEL
  folder "$1"
  {
    world_head "${NODES:-$world_nodes}" "${WALLTIME_S:-3600}"
    printf 'source %q %q %q\n' "$ROOT/tests/driver/job.bash" "$WORLD" "$HERE/$1"
  } >"$DISK/$1/script"
}

submit() {
  local label=$1
  script "$label"
  ID=$(ask ol_sched_submit "$HERE/$label/script" "$(name_of "$label")" output="$HERE/%j.out" dir="$HERE" "${@:2}")
  [ -n "$ID" ]
  JOB[$label]=$ID
}

# How often its script has started.
starts() { [[ -e $DISK/$1/ready && $(wc -l <"$DISK/$1/ready") == "$2" ]]; }

start() {
  submit "$@"
  until_true starts "$1" 1
}

tell_job() { # LABEL NUMBER CMD...; nobody waits for the answer
  printf '%q ' "${@:3}" >"$DISK/$1/.ask.$2"
  mv "$DISK/$1/.ask.$2" "$DISK/$1/ask.$2"
}

in_job() {
  local folder=$DISK/$1 number=$BASHPID.$RANDOM status
  tell_job "$1" "$number" "${@:2}"
  until_true test -e "$folder/status.$number" || return 99
  cat "$folder/out.$number"
  cat "$folder/err.$number" >&2
  read -r status <"$folder/status.$number"
  return "$status"
}

nodes_of() {
  mapfile -t NODE < <(in_job "$1" ol_sched_nodes)
  LAST=${NODE[-1]}
}

told_to_end() { until_true test -e "$DISK/$1/term"; }

end() {
  printf '%d\n' "${2:-0}" >"$DISK/$1/.end"
  mv "$DISK/$1/.end" "$DISK/$1/end"
}

# shellcheck disable=SC2053 # a pattern
is() {
  local said
  said=$(ask ol_sched_state "$1") && [[ $said == $2 ]]
}
becomes() { until_true is "$@"; }

# How many files of that pattern there are in a job's folder.
there_are() { # NUMBER LABEL PATTERN
  local found
  mapfile -t found < <(compgen -G "$DISK/$2/$3")
  ((${#found[@]} == $1))
}

has() { [[ " $world_lacks " != *" $1 "* ]]; }
needs() { has "$1" || skip "$WORLD: no $1"; }
