# shellcheck shell=bash
# tests/driver/worlds/slurm.bash - the questions' world for lib/scheduler/slurm.sh: a lab with Slurm
#
# Each driver has such a file. It sets
#   world_folder, world_disk   a folder that the user and all hosts see, and the same as seen by the tests
#   world_user     who asks, as chown takes it
#   world_nodes    how many nodes a job asks for: 2, or 1 where there are no more
#   world_lacks    what this scheduler has not: dir (a job begins where it was submitted), nodes (more than one), exclude,
#                  hold, requeue, node_failure, preemption, strangers, refuse, drop, hang
# and defines
#   world_up, world_down           raise it with nothing in its queue; end it, half of it too
#   world_as_user CMD...           run CMD as the user (WORLD_USER: another one), where jobs are submitted
#   world_head NODES WALLTIME_S    print the first lines of a job's script. WORLD_KIND: plain, requeued (the scheduler
#                                  runs it again when a node fails), preemptible, refused, dropped
#   world_dead, world_hangs, world_alive     its server is gone; takes calls and says nothing; answers again
# and accidents, where they are not lacked
#   world_hold ID | world_limit ID (its time is up) | world_shorten ID SEC | world_requeue ID | world_preempt ID HOST
#   world_node_fails HOST | world_node_returns HOST
# shellcheck source=../lab.bash
source "$ROOT/tests/driver/lab.bash"

# shellcheck disable=SC2034 # world.bash reads them
{
  lab_at lustre/orion/abc123/scratch/alice
  world_nodes=2
  world_lacks='drop'
}

# A job that is told to end has time for a question on a busy machine, and one that makes room does so at once.
world_up() {
  lab_up
  sed -i -e 's/^KillWait=.*/KillWait=30/' -e 's/GraceTime=.*/GraceTime=1/' "$world_dir/conf/slurm.conf"
  lab root head scontrol reconfigure
}

world_head() {
  local kind=${WORLD_KIND:-plain}
  printf '#!/bin/bash -l\n'
  printf '#SBATCH %s\n' --account=abc123 "--nodes=$1" "--time=$(($2 / 60))" --open-mode=append --export=NONE
  case $kind in
    requeued) printf '#SBATCH --requeue\n' ;;
    preemptible) printf '#SBATCH --partition=low-cancel --no-requeue\n' ;;
    refused) printf '#SBATCH --partition=nowhere\n' ;;
    *) printf '#SBATCH --no-requeue\n' ;;
  esac
}

world_hold() { world_as_user scontrol hold "$1"; }
world_limit() { lab root head scontrol update "jobid=$1" EndTime=now; }
world_shorten() { lab root head scontrol update "jobid=$1" "EndTime=now+$2seconds"; }
world_requeue() { lab root head scontrol requeue "$1"; }
world_preempt() { world_as_user sbatch --account=abc123 --partition=urgent --nodelist="$2" --wrap=true; }
world_node_fails() { lab off "$1"; }
world_node_returns() { lab on "$1"; }
