#include "tests/http/certificate.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "shared/base/check.h"

namespace holdfast::test {
namespace {

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string out(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return out;
}

}  // namespace

Certificate make_certificate(const std::string& common_name, const std::string& passphrase,
                             bool rsa) {
  EVP_PKEY* key = rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
  CHECK(key != nullptr);
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  X509_NAME* name = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  X509_set_issuer_name(cert, name);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
  X509_add_ext(cert, names, -1);
  X509_EXTENSION_free(names);
  CHECK(X509_sign(cert, key, EVP_sha256()) > 0);
  Certificate out;
  BIO* bio = BIO_new(BIO_s_mem());
  CHECK(PEM_write_bio_X509(bio, cert) == 1);
  out.cert = text_of(bio);
  bio = BIO_new(BIO_s_mem());
  CHECK(PEM_write_bio_PrivateKey(bio, key, passphrase.empty() ? nullptr : EVP_aes_128_cbc(),
                                 reinterpret_cast<const unsigned char*>(passphrase.data()),
                                 static_cast<int>(passphrase.size()), nullptr, nullptr) == 1);
  out.key = text_of(bio);
  X509_free(cert);
  EVP_PKEY_free(key);
  return out;
}

}  // namespace holdfast::test
