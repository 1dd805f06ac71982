// harness/cli/main.c - bt-bench
#include "harness/cli/cli.h"

int main(int argc, char **argv) { return bt_cli_main(argc, argv); }
