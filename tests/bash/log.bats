#!/usr/bin/env bats
load job

@test "log: a message is one line on stderr, nothing on stdout" {
  run --separate-stderr -0 ol_log_info "three" "words here"
  [ "$output" = "" ]
  # shellcheck disable=SC2154 # run sets it
  [[ $stderr =~ ^[0-9]{2}:[0-9]{2}:[0-9]{2}\ outlast:\ three\ words\ here$ ]]
}

@test "log: a warning and an error say that they are one" {
  run -0 ol_log_warn "the lake is slow"
  [[ $output == *"outlast: warning: the lake is slow" ]]
  run -0 ol_log_error "no room"
  [[ $output == *"outlast: error: no room" ]]
}

@test "log: percent signs and backslashes of a message stay as they are" {
  run -0 ol_log_info '100% of C:\new'
  [[ $output == *'100% of C:\new' ]]
}
