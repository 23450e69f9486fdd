#include "ops/cli/verbs.h"

int main(int argc, char** argv) {
  return holdfast::cli::run_cli(argc, argv);
}
