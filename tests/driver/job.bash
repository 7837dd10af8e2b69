# shellcheck shell=bash
# tests/driver/job.bash - what the jobs of the questions do: answer questions from inside, until they are told to end
#
#   source job.bash WORLD FOLDER      the last line of a job's script, in FOLDER
#
# In FOLDER: `ready` has a line for each start; ask.N, a command, is answered in out.N, err.N and status.N; `term`
# says that TERM has come; `end` holds the code with which the job ends. A launch has NAME.log and NAME.code.

begin() {
  local root=${BASH_SOURCE[0]%/tests/driver/*} file
  WORLD=$1 FOLDER=$2
  for file in log bounded shim "scheduler/$WORLD"; do
    # shellcheck disable=SC1090 # each of them
    source "$root/lib/$file.sh"
  done
  # What a supervisor has set by the time that it launches.
  # shellcheck disable=SC2034 # drivers read them
  OUTLAST_LAUNCH_ARGS=() OUTLAST_RUN=questions OUTLAST_WALLTIME_S=3600 OUTLAST_START_DIR=$PWD OUTLAST_LAUNCHER=pals
  export OUTLAST_TOKEN=questions.$$.$RANDOM
  OUTLAST_STATE=$(mktemp -d)
  exec {OUTLAST_OUT_FD}>&1
  trap 'touch "$FOLDER/term"' TERM
  trap 'rm -rf "$OUTLAST_STATE"' EXIT
}

answer() { # NUMBER
  trap - EXIT
  (eval "$(<"$FOLDER/asked.$1")") >"$FOLDER/out.$1" 2>"$FOLDER/err.$1" </dev/null
  printf '%d\n' "$?" >"$FOLDER/.status.$1"
  mv "$FOLDER/.status.$1" "$FOLDER/status.$1"
}

with() { # NAME=VALUE CMD...
  export "${1?}"
  "${@:2}"
}

# As lib/attempt.sh does it. The ranks' shim has to get along with the launcher.
launch() { # NAME NODES RANKS_PER_NODE CMD...
  local name=$1 nodes=$2 commas=${2//[!,]/}
  export OUTLAST_RANKS_PER_NODE=$3 WORLD_SIZE=$(((${#commas} + 1) * $3))
  shift 3
  printf '%s\n' "$nodes" >"$FOLDER/$name.nodes"
  {
    (
      trap - TERM EXIT
      printf '%d\n' "$BASHPID" >"$FOLDER/$name.pid"
      ol_sched_launch "$nodes" "$OUTLAST_RANKS_PER_NODE" bash -c "$(ol_shim_text)" outlast-rank "$@"
    ) >"$FOLDER/$name.log" 2>&1
    printf '%d\n' "$?" >"$FOLDER/.$name.code"
    mv "$FOLDER/.$name.code" "$FOLDER/$name.code"
  } &
}

tell_launch() { # NAME save|stop|kill
  local pid OUTLAST_NODE_LIST
  read -r pid <"$FOLDER/$1.pid"
  read -r OUTLAST_NODE_LIST <"$FOLDER/$1.nodes"
  if [[ $2 == kill ]]; then
    ol_sched_kill_launch "$pid"
  else
    ol_sched_signal_launch "$pid" "$2"
  fi
}

live() {
  local question code=0
  printf 'it starts here: %s\n' "$HOSTNAME"
  printf '%s\n' "$HOSTNAME" >>"$FOLDER/ready"
  until [[ -e $FOLDER/end ]]; do
    for question in "$FOLDER"/ask.*; do
      [[ -e $question ]] || continue
      mv "$question" "$FOLDER/asked.${question##*/ask.}"
      answer "${question##*/ask.}" &
    done
    sleep 0.1
  done
  read -r code <"$FOLDER/end"
  rm "$FOLDER/end" # it may be started again
  return "$code"
}

begin "$@"
live
exit
