#include "shared/wire/curve.h"

#include <zmq.h>

#include <cstdint>

#include "shared/base/check.h"

namespace holdfast::wire {
namespace {

Error no_curve() {
  return {Errc::kUnsupported,
          std::string("CURVE keys: ") + zmq_strerror(zmq_errno()) +
              "; libzmq was built without CURVE, install Debian's libzmq5 or one with libsodium"};
}

}  // namespace

Result<CurvePair> new_curve_pair() {
  char public_key[kCurveKeyText + 1];
  char secret_key[kCurveKeyText + 1];
  if (zmq_curve_keypair(public_key, secret_key) != 0) return no_curve();
  return CurvePair{public_key, secret_key};
}

Result<CurvePair> curve_pair_of(std::string_view secret) {
  CurvePair pair;
  pair.secret_key = curve_key_text(secret);
  char public_key[kCurveKeyText + 1];
  if (zmq_curve_public(public_key, pair.secret_key.c_str()) != 0) return no_curve();
  pair.public_key = public_key;
  return pair;
}

std::string curve_key_bytes(const std::string& text) {
  std::uint8_t bytes[kCurveKeyBytes];
  if (text.size() != kCurveKeyText || zmq_z85_decode(bytes, text.c_str()) == nullptr) return {};
  return {reinterpret_cast<const char*>(bytes), sizeof bytes};
}

std::string curve_key_text(std::string_view bytes) {
  CHECK(bytes.size() == kCurveKeyBytes);
  char text[kCurveKeyText + 1];
  CHECK(zmq_z85_encode(text, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()) !=
        nullptr);
  return text;
}

}  // namespace holdfast::wire
