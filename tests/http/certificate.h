#pragma once
// A certificate for one test: self-signed, P-256 or RSA, for 127.0.0.1.

#include <string>

namespace holdfast::test {

struct Certificate {
  std::string cert;  // PEM
  std::string key;   // PEM
};
/// Makes a certificate; with `passphrase` its key is encrypted.
Certificate make_certificate(const std::string& common_name, const std::string& passphrase = "",
                             bool rsa = false);

}  // namespace holdfast::test
