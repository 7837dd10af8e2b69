#!/usr/bin/env bats
# What one node answers: tests/fixtures/nodes, a row a kind of sickness
# shellcheck disable=SC2030,SC2031,SC2034 # a test is a subshell, and that is wanted; the checks read the settings
load helper
load node

setup() {
  local name
  for name in nodecheck nodegpu nodenet nodehost; do
    # shellcheck disable=SC1090 # one of four
    source "$ROOT/lib/$name.sh"
  done
  OUTLAST_CHECK_LOCAL=$BATS_TEST_TMPDIR/disk
  mkdir -p "$OUTLAST_CHECK_LOCAL"
}

@test "nodegpu: AMD, by the kernel, or rocm-smi or amd-smi" {
  OUTLAST_CHECK_GPU_TOOL=rocm-smi OUTLAST_CHECK_GPUS=8 OUTLAST_CHECK_GPU_MODEL=gfx90a
  rows_of amd <<'END'
    healthy          | gpu_count   | ok 8 (8)
    healthy          | gpu_model   | ok 8 x gfx90a 1002:7408 (gfx90a)
    healthy          | gpu_driver  | ok 6.16.13 (-)
    healthy          | gpu_ecc     | ok count=0 (none new)
    healthy          | gpu_remap   | ok none (none)
    healthy          | gpu_memory  | ok 10 MiB in use *
    healthy          | gpu_process | ok none (none)
    healthy          | gpu_clock   | ok 1700 MHz, 560 W (-)
    power_capped     | gpu_clock   | ok 1700 MHz, 300 W (-)
    no_clocks        | gpu_clock   | unknown it is not told (-)
    gpu_lost         | gpu_count   | bad 7 (8)
    other_model      | gpu_model   | bad 7 x gfx90a 1002:7408;1 x gfx942 1002:74a1 (gfx90a)
    uncorrectable    | gpu_ecc     | ok count=3 (none new)
    no_ras           | gpu_ecc     | unknown errors are not told *
    pages_pending    | gpu_remap   | bad 1 pages pending, 1 not reserved (none)
    memory_left      | gpu_memory  | bad 60416 MiB in use *
    process_left     | gpu_process | bad python3 (4711) (none)
    own_process_left | gpu_process | bad python3 (4712) (none)
    a_check_of_ours  | gpu_process | ok none (none)
    no_kfd           | gpu_count   | bad 2 (8)
    no_kfd           | gpu_model   | unknown 2 x AMD INSTINCT MI200 (MCM) OAM AC MBA (gfx90a)
    tool_garbles     | gpu_count   | unknown 0 are shown to this step, and a driver is there (8)
    no_driver        | gpu_count   | bad 0 (8)
END
  OUTLAST_CHECK_GPU_TOOL=amd-smi OUTLAST_CHECK_GPUS=0 OUTLAST_CHECK_GPU_MODEL=''
  rows_of amd <<'END'
    no_kfd_amd_smi   | gpu_count   | ok 2 (-)
    tool_garbles     | gpu_count   | unknown neither the kernel nor a tool shows a GPU (-)
END
}

@test "nodegpu: a process that is gone at the second look is none" {
  a_node amd/process_left
  _ol_nodegpu_pids() {
    echo 4711
    [[ -e $BATS_TEST_TMPDIR/looked ]] || echo 4712
    touch "$BATS_TEST_TMPDIR/looked"
  }
  mkdir -p "$OUTLAST_SYSROOT/proc/4712"
  [ "$(answer_of gpu_process)" = "bad python3 (4711) (none)" ]
  rm -r "$OUTLAST_SYSROOT/proc/4711" "$BATS_TEST_TMPDIR/looked"
  [ "$(answer_of gpu_process)" = "ok none (none)" ]
}

@test "nodegpu: NVIDIA, by the driver and nvidia-smi" {
  OUTLAST_CHECK_GPU_TOOL=nvidia-smi OUTLAST_CHECK_GPUS=4 OUTLAST_CHECK_GPU_MODEL='A100'
  rows_of nvidia <<'END'
    healthy       | gpu_count   | ok 4 (4)
    healthy       | gpu_model   | ok 4 x NVIDIA A100-SXM4-40GB (A100)
    healthy       | gpu_driver  | ok 580.65.06 (-)
    healthy       | gpu_ecc     | ok count=0 (none new)
    healthy       | gpu_remap   | ok none (none)
    healthy       | gpu_xid     | ok count=0 (none new)
    healthy       | gpu_memory  | ok 4 MiB in use *
    healthy       | gpu_process | ok none (none)
    healthy       | gpu_clock   | ok 1410 MHz, 400 W (-)
    slowed_down   | gpu_clock   | bad 1 slowed down (slowdown,thermal), 1410 MHz, 400 W *
    older_driver  | gpu_clock   | bad 1 slowed down (power_brake), 1410 MHz, 400 W *
    no_clocks     | gpu_clock   | unknown it is not told (-)
    gpu_lost      | gpu_count   | bad 3 (4)
    other_model   | gpu_model   | bad 1 x NVIDIA A10;3 x NVIDIA A100-SXM4-40GB (A100)
    uncorrectable | gpu_ecc     | ok count=3 (none new)
    no_ecc        | gpu_ecc     | unknown errors are not told *
    tool_fails    | gpu_ecc     | unknown errors are not told *
    row_pending   | gpu_remap   | bad 1 GPUs with rows pending, 0 failed (none)
    row_failed    | gpu_remap   | bad 0 GPUs with rows pending, 1 failed (none)
    no_rows       | gpu_remap   | unknown it is not told (none)
    off_the_bus   | gpu_xid     | ok count=1 (none new)
    log_closed    | gpu_xid     | unknown the kernel's log is not ours to read (none new)
    memory_left   | gpu_memory  | bad 31744 MiB in use *
    process_left  | gpu_process | bad vasp_std (4711) (none)
    no_proc       | gpu_count   | ok 4 (4)
    no_proc       | gpu_model   | ok 4 x NVIDIA A100-SXM4-40GB (A100)
END
}

@test "nodegpu: Intel, by the kernel and xpu-smi" {
  OUTLAST_CHECK_GPU_TOOL=xpu-smi OUTLAST_CHECK_GPUS=6 OUTLAST_CHECK_GPU_MODEL='pvc'
  rows_of intel <<'END'
    healthy               | gpu_count   | ok 6 (6)
    healthy               | gpu_model   | ok 6 x pvc 8086:0bd5 2 tiles (pvc)
    healthy               | gpu_driver  | ok 1.23.10.108 (-)
    healthy               | gpu_ecc     | ok count=0 (none new)
    healthy               | gpu_remap   | ok none (none)
    healthy               | gpu_memory  | ok 78 MiB in use *
    healthy               | gpu_process | ok none (none)
    healthy               | gpu_clock   | ok 1600 MHz (-)
    too_hot               | gpu_clock   | bad 1 slowed down (thermal), 1600 MHz *
    gpu_lost              | gpu_count   | bad 5 (6)
    other_model           | gpu_model   | bad 1 x 8086:56c0 2 tiles;5 x pvc 8086:0bd5 2 tiles (pvc)
    uncorrectable         | gpu_ecc     | ok count=4 (none new)
    uncorrectable_by_tool | gpu_ecc     | ok count=2 (none new)
    no_counters           | gpu_ecc     | unknown errors are not told *
    memory_bad            | gpu_remap   | bad *1 Status: Critical (none)
    tool_fails            | gpu_remap   | unknown it is not told (none)
    memory_left           | gpu_memory  | bad 60012 MiB in use *
    process_left          | gpu_process | bad python3 (4711) (none)
    no_drm                | gpu_count   | bad 2 (6)
END
}

@test "nodenet: Slingshot, those that the site names and those that are there" {
  OUTLAST_CHECK_INTERFACES='hsn0 hsn1 hsn2 hsn3'
  rows_of slingshot <<'END'
    healthy                | interface | ok hsn0:up hsn1:up hsn2:up hsn3:up (*)
    down                   | interface | bad hsn0:up hsn1:up hsn2:down hsn3:up (*)
    vanished               | interface | bad hsn0:up hsn1:up hsn2:up hsn3:gone (*)
    says_unknown_and_works | interface | ok hsn0:up hsn1:up hsn2:up hsn3:up (*)
    no_carrier             | interface | bad hsn0:up hsn1:unknown *
END
  OUTLAST_CHECK_INTERFACES=''
  rows_of slingshot <<'END'
    vanished               | interface | ok hsn0:up hsn1:up hsn2:up (-)
END
}

@test "nodenet: InfiniBand, its ports and IP over it; a port that nobody names may be down" {
  OUTLAST_CHECK_INTERFACES='ib0 ib1 mlx5_0 mlx5_1/1'
  rows_of infiniband <<'END'
    healthy              | interface | ok ib0:up ib1:up mlx5_0/1:up mlx5_1/1:up mlx5_2/1:DOWN mlx5_0:up (*)
    port_down            | interface | bad *mlx5_1/1:DOWN*
    port_without_manager | interface | bad *mlx5_1/1:INIT*
    card_vanished        | interface | bad *mlx5_1/1:gone*
    ip_down              | interface | bad ib0:down*
END
}

@test "nodenet: the way to the first node; a closed port is an answer, an address that nobody has is none" {
  OUTLAST_SYSROOT=''
  OUTLAST_CHECK_MASTER=127.0.0.1
  [[ $(answer_of route) == "ok 127.0.0.1 answers "* ]]
  OUTLAST_CHECK_MASTER=255.255.255.255
  [[ $(answer_of route) == "bad "*" (255.255.255.255 answers)" ]]
}

@test "nodehost: memory, and a disk by what is mounted there" {
  OUTLAST_CHECK_MEMORY_GIB=512
  rows_of host <<'END'
    healthy         | memory | ok 491 of 503 GiB free (384 GiB free)
    memory_taken    | memory | bad 100 of 503 GiB free (384 GiB free)
    half_the_memory | memory | bad 249 of 251 GiB free (384 GiB free)
    no_meminfo      | memory | unknown *
END
  OUTLAST_CHECK_LOCAL_IS_DISK=1 OUTLAST_CHECK_LOCAL=/mnt/bb
  [[ -d /mnt/bb ]] || OUTLAST_CHECK_LOCAL=$BATS_TEST_TMPDIR/bb
  mkdir -p "$OUTLAST_CHECK_LOCAL"
  _node_put() { # the disk of the fixture lies here
    mkdir -p "${1%/*}"
    printf '%b' "${2//'/mnt/bb'/$OUTLAST_CHECK_LOCAL}" >"$1"
  }
  rows_of host <<'END'
    healthy           | local_disk | ok xfs, * GiB free (a disk)
    disk_not_mounted  | local_disk | bad overlay (/dev/root) (a disk)
    disk_read_only    | local_disk | bad read-only (a disk)
    other_file_system | local_disk | ok ext4, * (a disk)
END
  OUTLAST_CHECK_LOCAL_FS='xfs'
  rows_of host <<'END'
    healthy           | local_disk | ok xfs, *
    other_file_system | local_disk | bad ext4 (/dev/sda1) (xfs)
END
}

# `df` as it is asked: size, free, files, free files.
df_says() { eval "df() { printf '%s\n' 'a b c d' '$1'; }; timeout() { shift 3; \"\$@\"; }"; }

@test "nodehost: a disk that is full, of bytes or of files, that is too small, or where nothing can be written" {
  OUTLAST_SYSROOT=''
  [[ $(answer_of local_disk) == "ok "*" GiB free "* ]]
  (
    df_says '1000000 20000 1000 900'
    room=$(_ol_nodehost_room /) && false
    [ "$room" = '19.5 GiB free' ]
    df_says '1000000 900000 1000 20'
    room=$(_ol_nodehost_room /) && false
    [[ $room == *'room for 20 files' ]]
    df_says '1000000 900000 - -'
    _ol_nodehost_room /
    OUTLAST_CHECK_LOCAL_GIB=1000
    room=$(_ol_nodehost_room /) && false
    [ "$room" = '878.9 GiB free' ]
  )
  OUTLAST_CHECK_LOCAL=/proc/nothing
  [[ $(answer_of local_disk) == "bad no folder /proc/nothing"* ]]
  [[ $(_ol_nodehost_writes /proc) == "cannot write" ]]
  cmp() { return 1; }
  [[ $(_ol_nodehost_writes "$BATS_TEST_TMPDIR/disk") == "reads something else than was written" ]]
}

@test "nodehost: the shared file system, and the folders of the modules" {
  OUTLAST_SYSROOT='' OUTLAST_CHECK_SHARED=$BATS_TEST_TMPDIR/project_dir
  [[ $(answer_of shared_fs) == "bad cannot read ("* ]]
  echo /home >"$OUTLAST_CHECK_SHARED"
  [[ $(answer_of shared_fs) == "ok answers after "*" s ("* ]]
  OUTLAST_CHECK_FOLDERS=/usr/bin:/opt/rocm-of-nowhere/lib
  [ "$(answer_of modules)" = "bad not here: /opt/rocm-of-nowhere/lib (the folders of the modules)" ]
  OUTLAST_CHECK_FOLDERS=/usr/bin
  [[ $(answer_of modules) == "ok "* ]]
}

@test "nodecheck: a check that hangs is killed with its children, and the others have answered" {
  OUTLAST_CHECK_LIMIT_S=5 OUTLAST_CHECK_GPU_TOOL=nvidia-smi # the others answer in that time, on a busy machine too
  a_node nvidia/tool_hangs
  run -0 bash -c "$(ol_nodecheck_text)"
  [[ $output == *$'\tgpu_ecc\tunknown\tno answer within 5 s\t-'* ]]
  [[ $output == *$'\tgpu_count\tok\t4\t-'* ]]
  [[ ${lines[-1]} == *$'\tend\tok\t'* ]]
  is_gone() { ! pgrep -f "$OUTLAST_SYSROOT/tools/nvidia-smi --query-gpu=ecc" >/dev/null; }
  until_true is_gone # its KILL takes a moment
}

@test "nodecheck: a child that keeps the pipe, one that leaves its process group, a check that dies and one that babbles" {
  OUTLAST_SYSROOT='' OUTLAST_CHECK_LIMIT_S=5
  ol_nodecheck_names() { printf '%s\n' memory clock shared_fs local_disk; }
  export STARTED=$BATS_TEST_TMPDIR/started
  _ol_nodehost_check_memory() {
    sleep 1000 &
    echo "$!" >>"$STARTED"
    setsid sleep 1001 &
    echo "$!" >>"$STARTED"
    ol_nodecheck_say memory ok "1 GiB"
  }
  _ol_nodehost_check_clock() { kill -s KILL "$BASHPID"; }
  _ol_nodehost_check_shared_fs() { printf 'say\tshared_fs\tok\nsay\tshared_fs\twell\ta\tb\n\0377\t\t\nok\n'; }
  _ol_nodehost_check_local_disk() { ol_nodecheck_say local_disk bad $'a\tb\nc\e[31m' "$(printf '%0300d' 0)"; }
  run -0 bash -c "$(ol_nodecheck_text)"
  xargs kill 2>/dev/null <"$STARTED" || true # these alone: other tests sleep as long, at the same time
  [ "${#lines[@]}" = 5 ]
  [[ $output == *$'\tmemory\tok\t1 GiB\t-'* ]]
  [[ $output == *$'\tclock\tunknown\tno answer within 5 s\t-'* ]]
  [[ $output == *$'\tshared_fs\tunknown\tthe check itself failed\t-'* ]]
  [[ $output == *$'\tlocal_disk\tbad\ta b c [31m\t'* ]]
}

@test "nodecheck: what makes no sense here is not asked, nor what is to be left out" {
  OUTLAST_SYSROOT=$BATS_TEST_TMPDIR OUTLAST_CHECK_ALONE=1 OUTLAST_CHECK_INTERFACES=hsn0
  [ "$(ol_nodecheck_names | paste -sd' ')" = "local_disk memory clock" ]
  OUTLAST_CHECK_ALONE='' OUTLAST_CHECK_MASTER=10.0.0.1 OUTLAST_CHECK_SHARED=/lustre OUTLAST_CHECK_SKIP='memory route'
  [ "$(ol_nodecheck_names | paste -sd' ')" = "interface local_disk shared_fs clock" ]
  a_node amd
  [[ $(ol_nodecheck_names) == gpu_count* ]]
  [[ $(ol_nodecheck_names) != *gpu_xid* ]]
}

@test "nodecheck: its text fits into one word of a command, quoted for a remote shell, too" {
  local text quoted
  text=$(ol_nodecheck_text)
  printf -v quoted '%q' "$text"
  ((${#quoted} < 100000))
}
