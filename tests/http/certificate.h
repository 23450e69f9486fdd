#pragma once
// A certificate made for one test: self-signed, P-256, for 127.0.0.1.

#include <string>

namespace holdfast::test {

struct Certificate {
  std::string cert;  // PEM
  std::string key;   // PEM
};
/// `passphrase`: the key is encrypted with it.
Certificate make_certificate(const std::string& common_name, const std::string& passphrase = "",
                             bool rsa = false);

}  // namespace holdfast::test
