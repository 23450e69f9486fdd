#pragma once
// The layers of a model of Ollama's that are not weights, and the profile that they make.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::profile {

/// Most bytes of one layer that is read, and most layers of a manifest.
inline constexpr std::size_t kLayerBytesMax = std::size_t{128} << 10;
inline constexpr std::size_t kLayersMax = 16;

/// A layer: "template", "system", "params", "messages" or "license", and its bytes.
struct Layer {
  std::string part;
  std::string bytes;
};

/// The part of a model's layers that is used here. Their bytes are trusted in nothing.
struct TakenOver {
  std::string profile;                // JSON; empty: nothing
  std::int64_t context = 0;           // num_ctx; 0: not said
  std::vector<std::string> taken;     // "template", "parameter temperature"
  std::vector<std::string> left_out;  // "template: why"
};

/// Returns the part that a layer of this media type is; nullopt for weights and others.
std::optional<std::string_view> layer_part(std::string_view media_type);

/// Takes over what a profile may have; what cannot be is left out, and why is said.
TakenOver take_over(const std::vector<Layer>& layers);

/// Returns "taken over: template, system; left out: …" for people; empty if there was nothing.
std::string summary(const TakenOver& taken_over);

}  // namespace holdfast::profile
