#!/usr/bin/env bats
# bin/setup: which Python it takes, and what it says where there is none

bats_require_minimum_version 1.5.0

setup() {
  bin=$BATS_TEST_TMPDIR/bin root=$BATS_TEST_TMPDIR/root
  mkdir -p "$bin" "$root/bin"
  cp "$BATS_TEST_DIRNAME/../../bin/setup" "$root/bin/setup"
  echo 'typer==1' >"$root/requirements.lock"
  # The machine's own Pythons stay out of sight.
  local tool
  for tool in bash env readlink cmp rm cp mkdir cat; do
    ln -s "$(command -v "$tool")" "$bin/$tool"
  done
}

# A Python that can make environments, or (`old`) cannot; it notes what it is asked to install.
python() { # NAME [old]
  cat >"$bin/$1" <<END
#!/usr/bin/env bash
case "\$1 \$2" in
  -c*) exit ${2:+1} ;;
  "-m venv") mkdir -p "\$3/bin" && cp "\$0" "\$3/bin/python" ;;
  "-m pip") echo "$1 \$*" >>$root/installed ;;
esac
END
  chmod +x "$bin/$1"
}

setup_here() { PATH=$bin run "$@" "$root/bin/setup"; }

@test "setup: the newest Python that can make an environment installs the lock file" {
  python python3.13 old
  python python3.12
  python python3
  setup_here -0
  [[ $(<"$root/installed") == "python3.12 "*"--require-hashes -r $root/requirements.lock" ]]
}

@test "setup: does nothing the second time" {
  python python3
  setup_here -0
  setup_here -0
  [ -z "$output" ]
  [[ $(<"$root/installed") != *$'\n'* ]]
}

@test "setup: a changed lock file is installed anew" {
  python python3
  setup_here -0
  echo 'typer==2' >"$root/requirements.lock"
  setup_here -0
  [[ $(<"$root/installed") == *$'\n'* ]]
}

@test "setup: an installation that fails is not taken for done" {
  python python3
  sed -i 's/echo/false/' "$bin/python3"
  setup_here -1
  [ ! -e "$root/.venv/requirements.lock" ]
}

@test "setup: without a Python and without apt-get it is one line that says what to type" {
  python python3 old
  setup_here -1
  [[ $output == "outlast: no Python 3.11 or newer with venv and sqlite3 here; type: "*" && make setup" ]]
}

@test "setup: root on Debian gets what is missing from apt-get" {
  ((EUID == 0)) || skip 'needs root'
  python python3 old
  printf '#!/usr/bin/env bash\necho "$*" >>%q\n' "$root/apt" >"$bin/apt-get"
  chmod +x "$bin/apt-get"
  setup_here -1
  [[ $(<"$root/apt") == *"install -y -qq python3.11 python3.11-venv" ]]
}
