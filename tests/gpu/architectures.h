#pragma once
// The architectures that devices run.

#include <string>
#include <vector>

#include "ops/model_tools/synth_family.h"
#include "shared/plan/family.h"

namespace holdfast::gpu {

/// All architectures of `synth` except those with latent attention or layers of several kinds,
/// which backend::load refuses.
inline std::vector<std::string> architectures() {
  std::vector<std::string> out = cli::synth_architectures();
  std::erase_if(out, [](const std::string& name) {
    const plan::Family* family = plan::find_family(name == "gemma4-moe" ? "gemma4" : name);
    return family != nullptr && (family->latent || family->uneven);
  });
  return out;
}

}  // namespace holdfast::gpu
