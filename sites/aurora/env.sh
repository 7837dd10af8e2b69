# shellcheck shell=bash
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
