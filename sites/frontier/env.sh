# shellcheck shell=bash
# sites/frontier/env.sh - modules and variables of Frontier
#
# Functions
#   ol_site_modules   load what a PyTorch for ROCm 7.1 needs
#   ol_site_env       set the variables of the network
#
# Source   where no other is named: olcf/olcf-user-docs, software/analytics/pytorch_frontier.rst, copy of 2026-07-22
# Reads    SLURM_JOB_NUM_NODES, FI_CXI_RDZV_PROTO
# Needs    environment
# Sourcing it defines the functions above and does nothing else.

# "Example Usage". The order matters; a libfabric module must not be loaded besides. For a PyTorch built with
# another ROCm, load that one in the job's `setup`. Status: that of the first module that does not load.
ol_site_modules() {
  local name
  for name in PrgEnv-gnu/8.7.0 cpe/26.03 rocm/7.1.1 rccl-net-plugin craype-accel-amd-gfx90a; do
    module load "$name" || return
  done
  # "Because using a non-default CPE": the loader would take the default one's libraries.
  export LD_LIBRARY_PATH=${CRAY_LD_LIBRARY_PATH:-}:${LD_LIBRARY_PATH:-}
}

ol_site_env() {
  # The plugin does not start in a job of one node, whose network is not configured; where it is missing with
  # several, RCCL goes over TCP without a word. OFI makes it stop instead. Outside a job nothing is set: what a
  # login node has is inherited by sbatch, and a job of many nodes would keep it.
  if ((${SLURM_JOB_NUM_NODES:-0} > 1)); then
    ol_environment_default NCCL_NET OFI
  elif ((${SLURM_JOB_NUM_NODES:-0} == 1)); then
    ol_environment_default NCCL_NET Socket
  fi
  # "strongly recommended by HPE and AMD on Frontier for both correctness and best performance at scale":
  # all four NICs for each ring; GPU and NIC talk directly when they share a PCIe host bridge.
  ol_environment_default NCCL_CROSS_NIC 1
  ol_environment_default NCCL_NET_GDR_LEVEL PHB
  ol_environment_default HSA_FORCE_FINE_GRAIN_PCIE 1
  # memhooks can deadlock with the plugin; kdreg2 is the default since 2025-05-13, written down against a change.
  ol_environment_default FI_MR_CACHE_MONITOR kdreg2
  # Registering host memory can deadlock with the monitor.
  ol_environment_default FI_CXI_DISABLE_HOST_REGISTER 1
  # Completion queues overflow at scale with the defaults; hybrid falls back to software when the NIC has no
  # match entry left.
  ol_environment_default FI_CXI_DEFAULT_CQ_SIZE 131072
  ol_environment_default FI_CXI_DEFAULT_TX_SIZE 2048
  ol_environment_default FI_CXI_RX_MATCH_MODE hybrid
  # "Alternative Rendezvous Protocol": module rccl-net-plugin asks for it. It needs --network=disable_rdzv_get
  # (site.toml has it), so it is not asked for here; with it every message goes by rendezvous.
  if [[ ${FI_CXI_RDZV_PROTO:-} == alt_read ]]; then
    ol_environment_default FI_CXI_RDZV_EAGER_SIZE 0
    ol_environment_default FI_CXI_RDZV_THRESHOLD 0
    ol_environment_default FI_CXI_RDZV_GET_MIN 0
  fi
}
