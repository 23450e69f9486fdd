#include "tests/gpu/test_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "worker/backend/api/opencl.h"

namespace holdfast::gpu {
namespace {

namespace fs = std::filesystem;

fs::path logits_dir() {
  const char* env = std::getenv("HOLDFAST_CONFORMANCE_DIR");
  return fs::path(env != nullptr ? env : HOLDFAST_SOURCE_DIR "/../shared/conformance") / "logits";
}

struct Choice {
  std::string device, why;
};

/// Sets the environment before anything uses OpenCL: PoCL has a cache of its own.
const Choice& choice() {
  static const Choice made = [] {
    setenv("POCL_CACHE_DIR", (cache_dir() + "/pocl").c_str(), 0);
    // PoCL 3.1 may fail an assertion of its own where one kernel has several specializations.
    setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);
    fs::create_directories(cache_dir() + "/pocl");
    const char* requested = std::getenv("HOLDFAST_TEST_DEVICE");
    const auto found = opencl::find_devices(false);
    if (!found) return Choice{"", found.error().what};
    const std::string device = requested != nullptr ? requested : "opencl:0";
    for (const opencl::Found& f : *found) {
      if (f.device != device) continue;
      return f.unusable.empty() ? Choice{device, ""} : Choice{"", f.name + " " + f.unusable};
    }
    return Choice{"", "there is no device " + device};
  }();
  return made;
}

}  // namespace

std::string device() {
  return choice().device;
}

std::string why_none() {
  return "no OpenCL device: " + choice().why;
}

std::string cache_dir() {
  return HOLDFAST_BUILD_DIR "/gpu-cache";
}

RunOptions on_device_uncached() {
  RunOptions options;
  options.device = device();
  options.kernels = "t0";
  return options;
}

RunOptions on_device() {
  RunOptions options = on_device_uncached();
  options.cache_dir = cache_dir();
  return options;
}

std::vector<std::string> conformance_names() {
  std::vector<std::string> names;
  if (!fs::exists(logits_dir())) return names;
  for (const auto& entry : fs::directory_iterator(logits_dir())) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

ConformanceCase conformance_case(const std::string& name) {
  ConformanceCase c;
  c.model = family_of(gguf::File::open((logits_dir() / (name + ".gguf")).string()).value(), 0);
  std::ifstream in(logits_dir() / (name + ".json"));
  const nlohmann::json j = nlohmann::json::parse(in);
  c.model.tokens = j.at("tokens").get<std::vector<std::int32_t>>();
  c.positions = j.at("positions").get<std::vector<std::int64_t>>();
  c.logits = j.at("logits").get<std::vector<std::vector<double>>>();
  return c;
}

double relative_error(const std::vector<float>& all, const ConformanceCase& c) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < c.positions.size(); ++i) {
    const std::size_t vocab = c.logits[i].size();
    for (std::size_t v = 0; v < vocab; ++v) {
      const auto at = static_cast<std::size_t>(c.positions[i]) * vocab + v;
      const double have = at < all.size() ? all[at] : 1e9;
      error += (have - c.logits[i][v]) * (have - c.logits[i][v]);
      norm += c.logits[i][v] * c.logits[i][v];
    }
  }
  return std::sqrt(error / norm);
}

}  // namespace holdfast::gpu
