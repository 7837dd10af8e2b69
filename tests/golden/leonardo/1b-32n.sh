#!/bin/bash -l
#SBATCH --job-name=1b-32n
#SBATCH --account=ABC123
#SBATCH --partition=boost_usr_prod
#SBATCH --nodes=33
#SBATCH --time=24:00:00
#SBATCH --gres=gpu:4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --export=NONE
#SBATCH --signal=B:USR1@660
#SBATCH --requeue
# Rendered by bin/render for leonardo: change the site or the job file, not this one.
# shellcheck disable=SC2034,SC2329  # every job carries all settings and tools, and not every job uses each
# ---- settings ---------------------------------------------------------------------------------------
USER=${USER:-$(id -un)}  # a login shell sets it, a bare environment doesn't
OUTLAST_VERSION='0.1.0'
OUTLAST_SITE='leonardo'
OUTLAST_SCHEDULER='slurm'
OUTLAST_JOB='1b-32n'
OUTLAST_RUN='1b-32n'
OUTLAST_FROM=''
OUTLAST_RUNS_DIR='/leonardo_work/ABC123/'"$USER"'/outlast'
OUTLAST_BAD_NODES=''
OUTLAST_PROJECT_DIR=''
OUTLAST_NODES=32
OUTLAST_SPARES=1
OUTLAST_WALLTIME_S=86400
OUTLAST_QUEUE='normal'
OUTLAST_EXCLUDE=''
OUTLAST_CHAIN=1
OUTLAST_SUCCESSOR='end'

OUTLAST_LOCAL_BASE='/tmp'
OUTLAST_RANKS_PER_NODE=4
OUTLAST_GPU_ARCH='sm_80'
OUTLAST_THREADS=8
OUTLAST_NET_INTERFACES=(ib0 ib1 ib2 ib3)
OUTLAST_MASTER_SUFFIX=''
OUTLAST_LAUNCHER='own'
OUTLAST_LAUNCH_ARGS=(--cpus-per-task=8)
OUTLAST_ONLINE=0
OUTLAST_PROXY=''
OUTLAST_NO_PROXY=''
OUTLAST_DETERMINISM=0

OUTLAST_COMMAND=(python3 -u train.py --output_dir '{ckpt_dir}' --run_name '{run}' --max_steps 50000 --per_device_train_batch_size 8 --learning_rate 3e-4 --bf16 true --logging_steps 10 --save_strategy steps --save_steps 500 --save_total_limit 3 '{resume}')
OUTLAST_PRESET='hf'
OUTLAST_RESUME_ARGS=(--resume_from_checkpoint '{ckpt}')
OUTLAST_STEP_REGEX='\| *([0-9]+)/50000 \['
OUTLAST_STEP_ZERO_COUNTS=0
OUTLAST_TARGET_STEP=50000
OUTLAST_FINISH_REGEX=''
OUTLAST_EVAL_REGEX='(\| *[0-9]+/[0-9]+ \[|Running Evaluation)'
OUTLAST_SAVE_REGEX='(Saving model checkpoint to)'
OUTLAST_SAVE_SIGNAL=''
OUTLAST_SAVES_ON_STOP=0

OUTLAST_STORAGE='shared'
OUTLAST_SHARDED=0
OUTLAST_STAGE_IN='all'
OUTLAST_CKPT_PREFIX='checkpoint-'
OUTLAST_CKPT_COMPLETE='trainer_state.json'
OUTLAST_CKPT_QUIET_S=30
OUTLAST_CKPT_KEEP=3
OUTLAST_CKPT_KEEP_BEST=1
OUTLAST_CKPT_KEEP_EVERY=0
OUTLAST_CKPT_GRACE_S=3600
OUTLAST_ON_DURABLE=()
OUTLAST_ON_DURABLE_EVERY=1
OUTLAST_ON_DURABLE_LIMIT_S=600
OUTLAST_SCORE_MIN=''
OUTLAST_SCORE_MAX=''
OUTLAST_CKPT_COPIER='agents'
OUTLAST_CKPT_WRITERS=16
OUTLAST_CKPT_MEMORY_GIB=0
OUTLAST_CKPT_MIB_PER_S=0
OUTLAST_CKPT_INTERVAL_S=1800

OUTLAST_MARGIN_S=600
OUTLAST_STARTUP_S=600
OUTLAST_STOP_WAIT_S=120
OUTLAST_TRAIN_AT_MOST_S=0
OUTLAST_POLL_S=60
OUTLAST_PREPARE_LIMIT_S=3600

OUTLAST_WATCHDOG=1
OUTLAST_IDLE_S=0
OUTLAST_START_LIMIT_S=0
OUTLAST_EVAL_LIMIT_S=0
OUTLAST_SAVE_LIMIT_S=0
OUTLAST_HEARTBEAT=''
OUTLAST_STACK_SIGNAL=''

OUTLAST_CRASH_PATTERNS=''

OUTLAST_ATTEMPTS=3
OUTLAST_SWAPS=4
OUTLAST_RECOVERY_S=3600
OUTLAST_STUCK_JOBS=3
OUTLAST_SAME_FAILURE=3
OUTLAST_RAPID_S=600
OUTLAST_RAPID_WAIT_S=60
OUTLAST_MAX_JOBS=0
OUTLAST_MAX_NODE_HOURS=0
OUTLAST_END_DATE=''

OUTLAST_PREFLIGHT=1
OUTLAST_CHECK_SKIP=''
OUTLAST_CHECK_RULES=''
OUTLAST_CHECK_GPUS=4
OUTLAST_CHECK_GPU_TOOL='nvidia-smi'
OUTLAST_CHECK_GPU_MODEL='A100'
OUTLAST_CHECK_INTERFACES=''
OUTLAST_CHECK_MEMORY_GIB=512
OUTLAST_CHECK_LOCAL_IS_DISK=0
OUTLAST_CHECK_LOCAL_FS=''
OUTLAST_CHECK_LOCAL_GIB=0

OUTLAST_PIN_FILES=()
OUTLAST_PIN_COMMANDS=()
OUTLAST_PIN_GIT=0

OUTLAST_MAIL_TO=''
OUTLAST_MAIL_HOOKS=''
OUTLAST_MAIL_ON='rapid_crash held early_exit finished no_spares refused no_successor ended_unknown not_durable damaged'
OUTLAST_MAIL_COMMAND=''
OUTLAST_NOT_DURABLE_S=7200

OUTLAST_PYTHON='/usr/bin/python3.11'
OUTLAST_PYTHON_PATH='/opt/outlast/.venv/bin/python'
OUTLAST_ROOT='/opt/outlast'

# ---- the story --------------------------------------------------------------------------------------
# No -e: a supervisor that dies of a grep without a match saves nobody.
main() {
  set -uo pipefail
  OUTLAST_START_DIR=$PWD OUTLAST_CLASS='' OUTLAST_THEN='' OUTLAST_STEP=''
  trap 'ol_watch_signal TERM; trap "" TERM' TERM # says all; the second one (PBS: to all processes) disturbs no answer
  trap 'ol_watch_signal USR1' USR1
  trap ol_settle_unexpected EXIT
  ol_run_begin "$0" || exit 1 # state and log in a folder on this node: the shared file system may freeze
  cd / || exit 1
  if ol_main_open; then # the run is ours, its nodes are well, and nothing speaks against going on
    ol_main_insure # a successor at once, if the job wants one against the loss of its first node
    while [[ -z $OUTLAST_THEN || $OUTLAST_THEN == relaunch ]]; do
      ol_main_attempt # choose a checkpoint, launch, watch, decide what follows
    done
  fi
  ol_settle # make the last checkpoint durable, report, let go of the run
  return "$OUTLAST_EXIT"
}

# Where things are:
#   OUTLAST_RUN_DIR   the run, on the shared file system: ledger, logs, checkpoints, control/
#   OUTLAST_LOCAL     this job's folder on each node's own disk: checkpoints, what the ranks say
#   OUTLAST_STATE     in that folder on the first node: this job's state and its own log
# What follows: the parts of main; this job and its site; the tools, a file each ("# lib/NAME.sh -"):
#   an attempt   attempt nodes leftovers pins watch stop ending verdict decide guard remedy successor settle
#   before it    preflight nodejudge nodecheck nodegpu nodenet nodehost
#   watchdog     hang cadence stacks suspect
#   beside it    deadline pulse reach courier hook coordinator checkpoint whole retention stage bring progress lease run record versions history ledger badnodes lock
#   below them   environment shim mail report py masked bounded log scheduler/slurm

# lib/main.sh - the parts of a job's story, in the order in which main tells them
# Needs    log, bounded, ledger, history, run, lease, deadline, courier, guard, ladder, preflight, attempt, watch, ending, verdict, decide, successor, mail, py, report, hook

# ---- this job and this site -------------------------------------------------------------------------
# Variables of the job file and its preset.
ol_job_env() {
  :
}

# The job's own lines, before each launch.
ol_job_setup() {
  module load profile/deeplrn cineca-ai
}

# sites/leonardo/env.sh - modules and variables of Leonardo
#
# Functions
#   ol_site_modules   nothing: put `module load profile/deeplrn cineca-ai`, or your own environment, into the job's `setup`
#   ol_site_env       set the variables of the network
#
# Needs    environment
# Sourcing it defines the functions above and does nothing else.

ol_site_modules() {
  :
}

ol_site_env() {
  # The InfiniBand cards and no Ethernet one (a job script of CINECA's staff in a public repository, 2024; unverified).
  ol_environment_default NCCL_IB_HCA mlx5
}

# ---- the tools --------------------------------------------------------------------------------------
# lib/attempt.sh - one launch: one checkpoint for all nodes, a fresh rendezvous, the ranks
# Needs    log, bounded, ledger, history, run, checkpoint, stage, nodes, leftovers, successor, pulse, courier, deadline, environment, shim, progress, pins, versions

# lib/nodes.sh - which nodes of this job train, which stand by, which are out of use (docs/nodes.md)
# Needs    log, ledger, badnodes

# lib/leftovers.sh - nothing of an earlier launch is left where the next one starts
# Needs    log, attempt, nodes, nodegpu, reach

# lib/pins.sh - is what the run trains with still what its first launch found? (docs/pins.md)
# Needs    log, bounded, ledger, attempt, py

# lib/watch.sh - while the ranks run: one look a second, at node-local files only
# Needs    log, bounded, run, ledger, history, stop, pulse, progress, deadline, ending, decide, courier, mail, hang

# lib/stop.sh - end the ranks, gently first
# Needs    log, ledger, checkpoint

# lib/ending.sh - how did it end? The first row that applies; the evidence is kept (docs/endings.md)
# Needs    log, bounded, masked, nodes, stop, watch, progress, checkpoint, verdict, history

# lib/verdict.sh - what the log says of an attempt that ended badly: `outlast crash`, asked in a child (docs/crash.md)
# Needs    log, bounded, deadline, ending, py

# lib/decide.sh - what follows from an ending
# Needs    log, bounded, masked, ledger, history, ladder, guard, remedy, record, successor, deadline, ending, nodes, checkpoint, courier, mail, run, lease

# lib/ladder.sh - a crash or a hang for which nobody is named: what is tried, and in which order (docs/nodes.md)
# Needs    log, ledger, history, nodes, badnodes, verdict, ending

# lib/guard.sh - when a run must not simply go on
# Needs    log, bounded, history, run, hook

# lib/remedy.sh - what would not pass by itself: another checkpoint, one more try, or a person
# Needs    log, bounded, ledger, history, ending, checkpoint, courier, mail

# lib/successor.sh - the next job of the chain
# Needs    log, bounded, ledger, history, deadline, run, lease, badnodes

# lib/settle.sh - the job's last minutes: drain, finish, report, let go
# Needs    log, bounded, ledger, courier, decide, deadline, ending, checkpoint, retention, lease, mail, nodes, py, report, hook

# lib/preflight.sh - before a launch: every node of this job is asked whether it is well (docs/preflight.md)
# Needs    log, bounded, ledger, environment, lock, nodecheck, nodejudge, nodes, reach

# lib/nodejudge.sh - whose fault is it: the answers of all nodes, compared with what was seen before and with each other
# Needs    nothing

# lib/nodecheck.sh - what preflight asks of one node: runs there, reads no file of ours, needs no root and no Python
# Needs    nodegpu, nodenet, nodehost

# lib/nodegpu.sh - the checks of lib/nodecheck.sh that look at GPUs
# Needs    nodecheck

# lib/nodenet.sh - the checks of lib/nodecheck.sh that look at the network
# Needs    nodecheck

# lib/nodehost.sh - the checks of lib/nodecheck.sh that look at a node's disk, memory, clock and file systems
# Needs    nodecheck

# lib/hang.sh - the watchdog: does the training still make progress? (docs/watchdog.md)
# Needs    log, bounded, ledger, history, cadence, stacks, stop

# lib/cadence.sh - how a trainer moves, and how long it may stand still: phases, and limits learned from the run
# Needs    nothing

# lib/stacks.sh - what every process of a launch is doing, written down before it is ended
# Needs    log, bounded, masked, py, suspect

# lib/suspect.sh - whose fault is a hang? What the stacks and the flight recorders of all its nodes say, compared
# Needs    nothing

# lib/deadline.sh - when training must stop, kept by a process of its own
# Needs    log, bounded, history

# lib/pulse.sh - are all our nodes alive? Schedulers see a dead one late, and then end the whole job for it
# Needs    log, nodes, reach, successor

# lib/reach.sh - which nodes answer: through the launcher, bounded, at any number of nodes
# Needs    nothing

# lib/courier.sh - what goes between the node and the shared file system while training runs
# Needs    log, bounded, ledger, lease, checkpoint, retention, whole, coordinator, mail, record

# lib/hook.sh - the user's command on every k-th durable checkpoint, and the scores that hold a run (docs/on-durable.md)
# Needs    log, bounded, ledger, history, checkpoint, attempt, decide, mail, successor

# lib/coordinator.sh - the Python that makes checkpoints durable (docs/sidecar.md), started, watched, listened to
# Needs    log, bounded, bring, ledger, checkpoint, environment, nodes, py

# lib/checkpoint.sh - checkpoints: node-local while training, durable beside it
# Needs    log, bounded, ledger, retention, versions, whole

# lib/whole.sh - is a checkpoint that lies whole on one file system complete? Its format's own judge decides
# Needs    log, bounded, ledger, py

# lib/retention.sh - which durable checkpoints stay, and what becomes of the others (docs/checkpoints.md, "What stays")
# Needs    bounded, checkpoint, hook, py

# lib/stage.sh - the chosen checkpoint, and no other, in sight of the trainer on every node
# Needs    log, bounded, bring, ledger, mail, checkpoint, attempt, py

# lib/bring.sh - Python for other nodes, brought there as words of a launcher's command line
# Needs    bounded

# lib/progress.sh - which step the trainer has reached, read from its log
# Needs    bounded

# lib/lease.sh - one job at a time owns the run
# Needs    log, bounded, run

# lib/run.sh - the run's folder on the shared file system, and the job's own on the node
# Needs    log, bounded

# lib/record.sh - what an ending was decided from, kept for `outlast classify` (docs/classify.md)
# Needs    log, bounded, deadline, checkpoint, progress, stop

# lib/versions.sh - with what the trainer runs: Python, torch and its friends
# Needs    nothing

# lib/history.sh - what the ledger says of the jobs before this one
# Needs    bounded

# lib/ledger.sh - the record of what happened: one JSON object a line (docs/ledger.md)
# Needs    bounded

# lib/badnodes.sh - nodes that were to blame, over jobs and runs (docs/badnodes.md)
# Needs    log, bounded, ledger, lock, nodes, py

# lib/lock.sh - one writer at a time of a file that several jobs share, also on mounts without flock
# Needs    nothing

# lib/environment.sh - the variables that trainers and their libraries need, whatever the site
# Needs    log

# lib/shim.sh - stands between the launcher and the trainer, once a rank
# Needs    nothing

# lib/mail.sh - tell a person, without ever waiting for it
# Needs    log, bounded, masked, courier, py

# lib/report.sh - what a person reads after a failure, a hold and the end of the run (docs/report.md)
# Needs    courier, mail, py

# lib/py.sh - the one door from Bash to Python
# Needs    log, bounded

# lib/masked.sh - secrets out of text that people will read or send on: what pyhelpers/outlast/masked.py does, without Python
# Needs    nothing

# lib/bounded.sh - run a command that may never come back
# Needs    nothing

# lib/log.sh - one line a message, on stderr
# Needs    nothing

# lib/scheduler/slurm.sh - everything that is said to Slurm, and nothing else says it
# Needs    nothing

main "$@"; exit
