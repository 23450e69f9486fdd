// holdfast-kernel-texts DIR: writes program texts as an NVIDIA GPU of tier t3 gets them, and one of
// t0, as DIR/NAME.cl. ops/gpu-kernels compiles them without a GPU.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "worker/backend/opencl/device/sources.h"

namespace holdfast::opencl {
namespace {

/// The capabilities of an NVIDIA GPU (worker/backend/opencl/device/probe.h), by PTX.
KernelCapabilities nvidia(bool int8_rows) {
  KernelCapabilities out;
  out.tiles = true;
  out.int8_rows = int8_rows;
  out.ahead = 2;
  out.shuffle = 2;
  out.dot = 2;
  out.matrix = 2;
  return out;
}

/// Name and text of each program. The weight types are those of Q4_K_M and Q8_0 files.
std::vector<std::pair<std::string, std::string>> texts() {
  using cpu::Format;
  const KernelCapabilities all = nvidia(true);
  return {{"q4_K", product_source(Format::kQ4_K, all)},
          {"q6_K", product_source(Format::kQ6_K, all)},
          {"q8_0", product_source(Format::kQ8_0, all)},
          {"q4_K+q6_K", concat_source(Format::kQ4_K, Format::kQ6_K, all)},
          {"q4_K-floats", product_source(Format::kQ4_K, nvidia(false))},
          {"pages-f16", pages_source(cpu::KvType::kF16, all)},
          {"rows", rows_source(all)}};
}

/// Returns false, with a message, if a file cannot be written.
bool write_texts(const std::filesystem::path& dir) {
  for (const auto& [name, text] : texts()) {
    const std::filesystem::path path = dir / (name + ".cl");
    std::ofstream file(path, std::ios::binary);
    file << text << std::flush;
    if (file) continue;
    std::fprintf(stderr,
                 "holdfast-kernel-texts: %s: could not be written; expected a folder "
                 "that exists, with space; see its rights\n",
                 path.c_str());
    return false;
  }
  return true;
}

}  // namespace
}  // namespace holdfast::opencl

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: holdfast-kernel-texts DIR\n");
    return 2;
  }
  return holdfast::opencl::write_texts(argv[1]) ? 0 : 1;
}
