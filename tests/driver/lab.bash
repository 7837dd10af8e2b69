# shellcheck shell=bash
# tests/driver/lab.bash - what the worlds that lie in a lab (tests/lab/lab) have in common
#
# Functions
#   lab WORDS...       tests/lab/lab of this world
#   lab_at FOLDER      set the folders: alice's in the lab is /FOLDER
#   lab_up             raise it
# Reads    WORLD_DIR, an empty folder for the lab
# and of those of worlds/slurm.bash: world_down, world_as_user, world_dead, world_hangs, world_alive

world_dir=${WORLD_DIR:-$BATS_FILE_TMPDIR/lab}

lab() { "$ROOT/tests/lab/lab" --dir "$world_dir" "$@" 3>&-; }

# The disk that the shared file system is served from has the name of its mount point.
# shellcheck disable=SC2034 # world.bash reads them
lab_at() {
  world_folder=/$1/questions
  world_disk=$world_dir/${1#*/}/questions
  world_user=61001:61000
}

lab_up() {
  lab up --scheduler "$WORLD" --plain
  install -d -o 61001 -g 61000 -m 2750 "$world_disk"
}

world_down() { [[ ! -e $world_dir/lab ]] || lab down; }
world_as_user() { lab as "${WORLD_USER:-alice}" head "$@"; }
world_dead() { lab ctl stop; }
world_hangs() { lab ctl hang; }

# It may be alive already.
world_alive() {
  lab ctl cont || true
  lab ctl start
  until_true lab_answers
}

lab_answers() {
  local status=0
  ask ol_sched_find nobody >/dev/null || status=$?
  ((status == 1))
}
