#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # words that stay text; a test is a subshell, and that is wanted
load job

# A Python whose packages are these: NAME VERSION ...
python_with() {
  local bin=$BATS_TEST_TMPDIR/bin site=$BATS_TEST_TMPDIR/site name
  mkdir -p "$bin" "$site/torch"
  printf '#!/bin/sh\nPYTHONPATH=%s exec %s "$@"\n' "$site" "$ROOT/.venv/bin/python" >"$bin/python3"
  chmod +x "$bin/python3"
  while (($#)); do
    mkdir "$site/$1-$2.dist-info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$1" "$2" >"$site/$1-$2.dist-info/METADATA"
    shift 2
  done
}
noted() {
  for ((tick = 0; tick < 600; tick++)); do
    [[ ! -e $OUTLAST_STATE/versions ]] || return 0
    sleep 0.1
  done
  return 1
}

@test "versions_note: of the command's own Python and what is installed there, nothing imported" {
  python_with torch 2.7.1+rocm6.3 transformers 4.55.0
  printf 'raise SystemExit("imported")\n' >"$BATS_TEST_TMPDIR/site/torch/__init__.py"
  printf "__version__ = '2.7.1+rocm6.3'\ncuda: Optional[str] = None\nhip: Optional[str] = '6.3.42134'\n" >"$BATS_TEST_TMPDIR/site/torch/version.py"
  printf '#!%s -u\n' "$BATS_TEST_TMPDIR/bin/python3" >"$BATS_TEST_TMPDIR/bin/torchrun"
  chmod +x "$BATS_TEST_TMPDIR/bin/torchrun"
  local command
  for command in "$BATS_TEST_TMPDIR/bin/python3" "$BATS_TEST_TMPDIR/bin/torchrun"; do
    ol_versions_note "$command" train.py
    noted
    [[ $(ol_versions_json) == ',"python":"3.'*'","torch":"2.7.1+rocm6.3","transformers":"4.55.0","rocm":"6.3.42134"' ]]
    rm "$OUTLAST_STATE/versions"
  done
  PATH=$BATS_TEST_TMPDIR/bin:$PATH ol_versions_note my-trainer
  noted
  [[ $(ol_versions_json) == *'"torch":'* ]]
}

@test "versions_note: what has no Python is unknown, and asked once" {
  mkdir "$BATS_TEST_TMPDIR/bare"
  ln -s "$(type -P mv)" "$(type -P timeout)" "$BATS_TEST_TMPDIR/bare"
  PATH=$BATS_TEST_TMPDIR/bare ol_versions_note ./a.out
  noted
  [ -z "$(ol_versions_json)" ]
  python_with torch 2.7.1
  ol_versions_note "$BATS_TEST_TMPDIR/bin/python3"
  [ -z "$(ol_versions_json)" ]
}

@test "versions_json: only what looks like a version is one" {
  echo 'python=3.11.7 torch="} x=$(id) y= transformers=4.1' >"$OUTLAST_STATE/versions"
  [ "$(ol_versions_json)" = ',"python":"3.11.7","transformers":"4.1"' ]
}
