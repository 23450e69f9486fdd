#pragma once
// SHA-256 by OpenSSL, which uses the processor's own instructions for it: ten times libsodium's
// rate, and a model is gigabytes.

#include <cstddef>
#include <memory>
#include <string>

namespace holdfast::huggingface {

/// A running hash. Not thread-safe.
class Sha256 {
 public:
  static constexpr std::size_t kBytes = 32;  // of a hash

  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(const void* bytes, std::size_t n);
  /// Returns the hash as kBytes bytes. Once.
  std::string end();
  /// Returns the hash as hexadecimal digits in lower case. Once.
  std::string end_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::huggingface
