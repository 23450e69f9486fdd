#include "worker/backend/opencl/device/rates.h"

#include <algorithm>
#include <cstdlib>

#include "worker/backend/opencl/device/probe.h"
#include "worker/backend/opencl/device/program_cache.h"

namespace holdfast::opencl {
namespace {

double cached_copy_rate(const Device& d, const ProgramCache& cache) {
  const std::string key = cache_key({"copy rate", d.name, d.version, d.driver, d.platform});
  if (const auto text = cache.read(key)) return std::strtod(text->c_str(), nullptr);
  const double rate = std::max(copy_rate(d), 0.1);  // copy_rate gives 0 where it cannot time
  cache.write(key, std::to_string(rate));
  return rate;
}

}  // namespace

std::vector<double> relative_rates(const std::vector<Device>& devices,
                                   const std::string& cache_dir) {
  const ProgramCache cache(cache_dir);
  const bool alike = std::all_of(devices.begin(), devices.end(), [&](const Device& d) {
    return d.name == devices[0].name && d.driver == devices[0].driver;
  });
  std::vector<double> rates;
  for (const Device& d : devices) rates.push_back(alike ? 1 : cached_copy_rate(d, cache));
  return rates;
}

}  // namespace holdfast::opencl
