#!/bin/bash -l
#PBS -N smoke
#PBS -A ABC123
#PBS -q workq
#PBS -l select=2
#PBS -l place=scatter
#PBS -l walltime=0:15:00
#PBS -l filesystems=home:tegu
#PBS -j oe
#PBS -k doe
#PBS -W umask=027
#PBS -r y
#PBS -S /opt/outlast/lib/scheduler/pbs-shell
# Rendered by bin/render for sunspot: change the site or the job file, not this one.
# shellcheck disable=SC2034,SC2329  # every job carries all settings and tools, and not every job uses each
# ---- settings ---------------------------------------------------------------------------------------
USER=${USER:-$(id -un)}  # a login shell sets it, a bare environment doesn't
OUTLAST_VERSION='0.1.0'
OUTLAST_SITE='sunspot'
OUTLAST_SCHEDULER='pbs'
OUTLAST_JOB='smoke'
OUTLAST_RUN='smoke'
OUTLAST_FROM=''
OUTLAST_RUNS_DIR='/lus/tegu/projects/ABC123/'"$USER"'/outlast'
OUTLAST_BAD_NODES=''
OUTLAST_PROJECT_DIR=''
OUTLAST_NODES=2
OUTLAST_SPARES=0
OUTLAST_WALLTIME_S=900
OUTLAST_QUEUE='workq'
OUTLAST_EXCLUDE=''
OUTLAST_CHAIN=1
OUTLAST_SUCCESSOR='end'

OUTLAST_LOCAL_BASE='/tmp'
OUTLAST_RANKS_PER_NODE=12
OUTLAST_GPU_ARCH='pvc'
OUTLAST_THREADS=4
OUTLAST_NET_INTERFACES=(hsn0 hsn1 hsn2 hsn3 hsn4 hsn5 hsn6 hsn7)
OUTLAST_MASTER_SUFFIX='.hsn.cm.sunspot.alcf.anl.gov'
OUTLAST_LAUNCHER='pals'
OUTLAST_LAUNCH_ARGS=(--pmi=pmix --cpu-bind=list:4-7:8-11:12-15:16-19:20-23:24-27:56-59:60-63:64-67:68-71:72-75:76-79)
OUTLAST_ONLINE=0
OUTLAST_PROXY='http://proxy.alcf.anl.gov:3128'
OUTLAST_NO_PROXY='localhost,127.0.0.1,*.cm.sunspot.alcf.anl.gov,*.alcf.anl.gov'
OUTLAST_DETERMINISM=0

OUTLAST_COMMAND=(ol_smoke '{ckpt_dir}' '{resume}')
OUTLAST_PRESET='smoke'
OUTLAST_RESUME_ARGS=(--resume '{ckpt}')
OUTLAST_STEP_REGEX='step ([0-9]+)'
OUTLAST_STEP_ZERO_COUNTS=0
OUTLAST_TARGET_STEP=0
OUTLAST_FINISH_REGEX=''
OUTLAST_EVAL_REGEX=''
OUTLAST_SAVE_REGEX=''
OUTLAST_SAVE_SIGNAL=''
OUTLAST_SAVES_ON_STOP=1

OUTLAST_STORAGE='shared'
OUTLAST_SHARDED=0
OUTLAST_STAGE_IN='all'
OUTLAST_CKPT_PREFIX='checkpoint-'
OUTLAST_CKPT_COMPLETE='trainer_state.json'
OUTLAST_CKPT_QUIET_S=5
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
OUTLAST_CKPT_INTERVAL_S=30

OUTLAST_MARGIN_S=120
OUTLAST_STARTUP_S=120
OUTLAST_STOP_WAIT_S=30
OUTLAST_TRAIN_AT_MOST_S=90
OUTLAST_POLL_S=5
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
OUTLAST_MAX_JOBS=4
OUTLAST_MAX_NODE_HOURS=0
OUTLAST_END_DATE=''

OUTLAST_PREFLIGHT=1
OUTLAST_CHECK_SKIP=''
OUTLAST_CHECK_RULES=''
OUTLAST_CHECK_GPUS=6
OUTLAST_CHECK_GPU_TOOL='xpu-smi'
OUTLAST_CHECK_GPU_MODEL='pvc'
OUTLAST_CHECK_INTERFACES=''
OUTLAST_CHECK_MEMORY_GIB=0
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
#   below them   environment shim mail report py masked bounded log scheduler/pbs

# lib/main.sh - the parts of a job's story, in the order in which main tells them
# Needs    log, bounded, ledger, history, run, lease, deadline, courier, guard, ladder, preflight, attempt, watch, ending, verdict, decide, successor, mail, py, report, hook

# ---- this job and this site -------------------------------------------------------------------------
# Variables of the job file and its preset.
ol_job_env() {
  :
}

# The job's own lines, before each launch.
ol_job_setup() {
  :
}

# sites/aurora/env.sh - modules and variables of Aurora, and of Sunspot, its testbed, which has this file by a link
#
# Functions
#   ol_site_modules   load ALCF's PyTorch, and look whether it is there
#   ol_site_env       set the variables of oneCCL, of the network and of the launcher
#
# Source   where no other is named: argonne-lcf/user-guides, docs/aurora/data-science/frameworks/oneCCL.md, 2026-08-19
# Reads    LOADEDMODULES, TMPDIR
# Needs    environment
# Sourcing it defines the functions above and does nothing else.

# "A bare name may load nothing, with status 0" (saforem2/ezpz docs/notes, 2026-08-21), and training would start with the
# system's Python. For an environment of your own activate it in the job's `setup`: it needs this module below it.
# Status 1: not loaded.
ol_site_modules() {
  module load frameworks || return
  [[ :${LOADEDMODULES:-}: == *:frameworks[:/]* ]] || {
    echo 'outlast: module load frameworks succeeded and loaded nothing; module avail frameworks lists the versions' >&2
    return 1
  }
}

# What module frameworks has set stays.
ol_site_env() {
  # "Minimal set", "essential for functionality for training workloads", tested by ALCF up to 1024 nodes: ranks find each
  # other by PMIx, and oneCCL's messages go through MPI.
  ol_environment_default CCL_PROCESS_LAUNCHER pmix
  ol_environment_default CCL_ATL_TRANSPORT mpi
  ol_environment_default CCL_KVS_MODE mpi
  ol_environment_default FI_MR_CACHE_MONITOR userfaultfd
  # "To avoid potential hang at large scale", both; the first is a work-around for collectives that need an explicit
  # synchronization, too (docs/aurora/system-updates.md, 2025-10-13).
  ol_environment_default CCL_OP_SYNC 1
  ol_environment_default CCL_ATL_SYNC_COLL 1
  # Seconds for the first contact of thousands of ranks.
  ol_environment_default CCL_KVS_CONNECTION_TIMEOUT 600
  # "Mandatory" there: one set of options for CPUs and GPUs, ranks by MPI's numbers, and room for the handles of all peers.
  ol_environment_default CCL_CONFIGURATION cpu_gpu_dpcpp
  ol_environment_default CCL_KVS_USE_MPI_RANKS 1
  ol_environment_default CCL_ZE_CACHE_OPEN_IPC_HANDLES_THRESHOLD 1024
  # Which algorithm is best for all-reduce ALCF's pages disagree about (rabenseifner there, "failure, recommending direct"
  # in system-updates.md), so none is chosen here.

  # "Cassini Event Queue overflow detected" (docs/aurora/known-issues.md, 2025-09-05): larger queues, pushed back earlier.
  ol_environment_default FI_CXI_DEFAULT_CQ_SIZE 131072
  ol_environment_default FI_CXI_OFLOW_BUF_SIZE 8388608
  ol_environment_default FI_CXI_CQ_FILL_PERCENT 20
  # Falls back to software when the NIC has no match entry left.
  ol_environment_default FI_CXI_RX_MATCH_MODE hybrid

  # Seconds. A node that answers late is not taken for dead so soon ("ping RPC timeout ... after 120s", known-issues.md).
  ol_environment_default PALS_PING_PERIOD 240
  ol_environment_default PALS_RPC_TIMEOUT 240

  # Tiles are devices; module frameworks sets it, a script without the module needs it.
  ol_environment_default ZE_FLAT_DEVICE_HIERARCHY FLAT
  # Or the query for free device memory fails (known-issues.md, "SYCL Device Free Memory Query Error").
  ol_environment_default ZES_ENABLE_SYSMAN 1
  # PBS's own folder has a name too long for a socket: "AF_UNIX path too long" (known-issues.md).
  [[ ${TMPDIR:-} != /var/tmp/pbs.* ]] || export TMPDIR=/tmp
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

# lib/scheduler/pbs.sh - everything that is said to PBS (PBS Pro, OpenPBS), and nothing else says it
# Needs    bounded

# lib/smoke.sh - a trainer that trains nothing: it proves that a site works with outlast
# Needs    nothing

main "$@"; exit
