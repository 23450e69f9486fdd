#pragma once
// The request of a simulated client, and how the client will behave.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/wire/messages.h"

namespace holdfast::simulation {

struct SimRequest {
  wire::Submit submit;  // without tag
  std::vector<wire::TokenId> prompt;
  std::int64_t at_us = 0;       // first submitted
  std::int64_t cancel_us = -1;  // after acceptance; -1 = never
  int poison_at = -1;           // its worker dies of it at this index; -1 = never
  bool replay = false;          // resumes at an earlier index once
  bool slow = false;            // takes its time to give credit
  bool repeat = false;          // submits twice
  bool foreign = false;         // another tenant asks for it
  std::int64_t again_us = -1;   // streams it once more, so long after its end; -1 = never
  int same_key_as = -1;         // request whose tenant and key it has
  bool other_body = false;      // … with another body
  std::int64_t choices() const { return submit.n; }
};

/// An alias of m0, m1 or both, in seeds that have aliases.
inline constexpr const char* kAlias = "chat";

/// The tenant with many choices, in seeds that have one.
inline constexpr const char* kCrowd = "crowd";

/// Content hashes of the models, by their order; the second one may be broken.
inline constexpr const char* kModelShas[] = {"sha-m0", "sha-m1"};
inline constexpr const char* kBadModel = kModelShas[1];

/// A prompt that begins with kPoison + i kills its worker at index i, i < kPoisonKinds.
inline constexpr wire::TokenId kPoison = 666;
inline constexpr int kPoisonKinds = 4;

/// Ids of a text prompt, as the simulated helper makes them.
std::vector<wire::TokenId> ids_of_text(const std::string& text);

}  // namespace holdfast::simulation
