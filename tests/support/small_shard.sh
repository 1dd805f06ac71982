#!/bin/bash
# tests/support/small_shard.sh FILE - a shard of 4096 tokens below 64, with some order in them to be
# learnt: token i is i * i mod 61
# A program of its own, without a process per token: in a bats file each command is traced.
tokens=
for i in $(seq 4096); do
    printf -v token '\\x%02x\\0' $((i * i % 61))
    tokens+=$token
done
{
    printf '\x88\xd8\x34\x01\x01\0\0\0\0\x10\0\0'
    head -c 1012 /dev/zero
    printf %b "$tokens"
} >"$1"
