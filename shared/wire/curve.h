#pragma once
// Key pairs of CURVE, the encryption of ZeroMQ: https://rfc.zeromq.org/spec/26/. Keys are 32 bytes,
// written as 40 characters of Z85.

#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::wire {

inline constexpr std::size_t kCurveKeyBytes = 32;
inline constexpr std::size_t kCurveKeyText = 40;

/// A key pair; both keys in Z85.
struct CurvePair {
  std::string public_key;
  std::string secret_key;
};

/// Returns a new pair from the system's random numbers. kUnsupported where libzmq has no CURVE.
Result<CurvePair> new_curve_pair();
/// Returns the pair whose secret key is `secret`, 32 bytes. kUnsupported as above.
Result<CurvePair> curve_pair_of(std::string_view secret);
/// Returns the 32 bytes of a key in Z85; empty if the text is not one.
std::string curve_key_bytes(const std::string& text);
/// Returns 32 bytes as Z85 (CHECKed).
std::string curve_key_text(std::string_view bytes);

}  // namespace holdfast::wire
