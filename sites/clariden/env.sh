# shellcheck shell=bash
# sites/clariden/env.sh - variables of Clariden
#
# Functions
#   ol_site_modules   nothing: software comes in containers (launch = "--environment=...") or uenvs
#   ol_site_env       set the variables of the network
#
# Source   where no other is named: eth-cscs/cscs-docs, docs/software/communication/nccl_env_vars, 2026-08-20:
#          "should always be set for correctness and optimal performance"
# Needs    environment
# Sourcing it defines the functions above and does nothing else.

ol_site_modules() {
  :
}

ol_site_env() {
  # Without the plugin NCCL would go over TCP without a word; by this name it stops instead. In a container the
  # annotation com.hooks.aws_ofi_nccl brings the plugin; NCCL_NET_PLUGIN must not be set besides (nccl.md).
  ol_environment_default NCCL_NET "AWS Libfabric"
  # GPU and NIC talk directly when they are on the same NUMA node; all NICs for each ring.
  ol_environment_default NCCL_NET_GDR_LEVEL PHB
  ol_environment_default NCCL_CROSS_NIC 1
  # On by default since NCCL 2.27, and slower on Slingshot.
  ol_environment_default NCCL_PROTO ^LL128
  ol_environment_default FI_CXI_DEFAULT_CQ_SIZE 131072
  ol_environment_default FI_CXI_DEFAULT_TX_SIZE 16384
  ol_environment_default FI_CXI_DISABLE_HOST_REGISTER 1
  ol_environment_default FI_CXI_RX_MATCH_MODE software
  ol_environment_default FI_MR_CACHE_MONITOR userfaultfd
  # nccl.md, "GPU-aware MPI with NCCL": can deadlock; it may be 1 by default.
  ol_environment_default MPICH_GPU_SUPPORT_ENABLED 0
  # CUDA_CACHE_DISABLE=1 of docs/software/ml/pytorch.md keeps CUDA's cache off the shared file system; here it lies on the node
  # (lib/environment.sh).
  # docs/software/ml/pytorch.md: a rank whose watchdog finds an error takes its communicators down and ends.
  ol_environment_default TORCH_NCCL_ASYNC_ERROR_HANDLING 1
}
