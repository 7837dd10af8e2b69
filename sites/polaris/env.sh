# shellcheck shell=bash
# sites/polaris/env.sh - modules and variables of Polaris
#
# Functions
#   ol_site_modules   activate ALCF's PyTorch, and look whether it is there; NCCL's plugin for Slingshot
#   ol_site_env       set the variables of the network, and the order of the GPUs
#
# Source   where no other is named: argonne-lcf/user-guides, docs/polaris/applications-and-libraries/libraries/nccl.md,
#          2026-08-19
# Reads    CONDA_PREFIX, TMPDIR
# Needs    environment
# Sourcing it defines the functions above and does nothing else.

# docs/polaris/data-science/python.md. For packages of your own activate a venv on top in the job's `setup`.
# Status 1: not loaded.
ol_site_modules() {
  module use /soft/modulefiles || return
  module load conda || return
  conda activate base || return
  [[ -n ${CONDA_PREFIX:-} ]] || {
    echo 'outlast: module load conda succeeded and no environment is active' >&2
    return 1
  }
  # The plugin, and the hwloc that it needs.
  export LD_LIBRARY_PATH=/soft/libraries/hwloc/lib:/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib:${LD_LIBRARY_PATH:-}
}

# What module conda has set stays.
ol_site_env() {
  # "The following best environment setup", two to three times faster for some messages than TCP. But: "for some
  # applications such as Megatron-DeepSpeed, enabling the plugin will cause a hang or NCCL timeout". For these
  # NCCL_NET = "Socket" and NCCL_COLLNET_ENABLE = "0" in the job's [env].
  ol_environment_default NCCL_NET "AWS Libfabric"
  ol_environment_default NCCL_NET_GDR_LEVEL PHB
  ol_environment_default NCCL_CROSS_NIC 1
  ol_environment_default NCCL_COLLNET_ENABLE 1
  ol_environment_default FI_CXI_DISABLE_HOST_REGISTER 1
  # memhooks can deadlock with such a plugin.
  ol_environment_default FI_MR_CACHE_MONITOR userfaultfd
  # Completion queues overflow at scale with the default.
  ol_environment_default FI_CXI_DEFAULT_CQ_SIZE 131072
  # "Need to assign GPUs in reverse order due to topology" (docs/polaris/running-jobs/using-gpus.md): GPU 3 is nearest to
  # cores 0-7, GPU 0 to 24-31. Each rank sees all four, and device LOCAL_RANK of this order is the near one.
  ol_environment_default CUDA_VISIBLE_DEVICES 3,2,1,0
  # PBS's own folder has a name too long for a socket: "AF_UNIX path too long" (docs/polaris/known-issues.md).
  [[ ${TMPDIR:-} != /var/tmp/pbs.* ]] || export TMPDIR=/tmp
}
