#include "ops/cli/verbs.h"
#include "shared/base/standard_files.h"

int main(int argc, char** argv) {
  holdfast::open_standard_files();
  return holdfast::cli::run_cli(argc, argv);
}
