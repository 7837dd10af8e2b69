# shellcheck shell=bash
# sites/lumi/env.sh - modules and variables of LUMI-G
#
# Functions
#   ol_site_modules   load what lets a container reach the file systems and the network
#   ol_site_env       set the variables of the network
#
# Needs    environment
# Sourcing it defines the functions above and does nothing else.

# Lumi-supercomputer/LUMI-AI-Guide 2026-05-19, 05-multi-gpu-and-node/run_ddp_srun_4.sh: PyTorch comes in a container,
# and this module binds /scratch and Slingshot's libraries into it.
ol_site_modules() {
  module purge || return
  module use /appl/local/laifs/modules || return
  module load lumi-aif-singularity-bindings
}

# Lumi-supercomputer/lumi-userguide 2024-10-15, software/packages/pytorch.md, where no other source is named.
ol_site_env() {
  # GPU and NIC talk directly when they share a PCIe host bridge.
  ol_environment_default NCCL_NET_GDR_LEVEL 3
  # Data loaders fork, and "accessing an RDMA buffer from a forked child process is not supported" otherwise
  # (libfabric's page fi_cxi(7), "Fork").
  ol_environment_default CXI_FORK_SAFE 1
  ol_environment_default CXI_FORK_SAFE_HP 1
  # Completion queues in ordinary pages instead of huge ones (fi_cxi(7)); what for, the page does not say.
  ol_environment_default FI_CXI_DISABLE_CQ_HUGETLB 1
}
