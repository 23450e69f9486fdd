// Goal: HTTPS serves what HTTP serves: answers, streams, pipelined requests, ends; TLS 1.2 and 1.3
// alone; a slow handshake, noise and plain HTTP are handled; a new certificate is loaded while
// connections are open, and a bad one is not. Method: the gateway on a socket with a certificate of
// the test's own, OpenSSL as the client.
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "control/gateway/http/tls.h"
#include "tests/http/certificate.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::tls_test {
namespace {

using gateway::TlsIdentity;
using std::chrono::milliseconds;

class Tls : public testing::Test {
 protected:
  Tls() {
    std::string folder = std::filesystem::temp_directory_path() / "hf-tls-XXXXXX";
    CHECK(mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
    put(first);
  }
  ~Tls() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void put(const Certificate& identity) const {
    write("cert.pem", identity.cert);
    write("key.pem", identity.key);
  }
  std::string cert() const { return folder_ / "cert.pem"; }
  std::string key() const { return folder_ / "key.pem"; }
  std::shared_ptr<TlsIdentity> identity(milliseconds look_every = milliseconds(0)) const {
    return TlsIdentity::load(cert(), key(), look_every).value();
  }
  std::string error(const std::string& cert_path, const std::string& key_path) const {
    const auto loaded = TlsIdentity::load(cert_path, key_path);
    EXPECT_FALSE(loaded.has_value());
    if (loaded.has_value()) return "";
    EXPECT_EQ(loaded.error().code, Errc::kUsage);
    return loaded.error().what;
  }

  std::filesystem::path folder_;
  const Certificate first = make_certificate("first");
};

TEST_F(Tls, Https_WithTls12And13_ServesPipelinedAndStreamedReplies) {
  Gateway gateway({}, identity());
  std::vector<std::string> token_bytes;
  for (int i = 0; i < 3'000; ++i) token_bytes.push_back("token" + std::to_string(i) + " ");
  gateway.client.script.token_bytes = {token_bytes};
  std::string whole;
  for (const std::string& token : token_bytes) whole += token;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    Peer peer(gateway.address());
    ASSERT_TRUE(peer.start_tls(first.cert, version));
    peer.send(get("/health/live") + get("/health/live"));  // both before the first answer
    EXPECT_EQ(peer.read_reply().status, 200);
    EXPECT_EQ(peer.read_reply().status, 200);
    const std::string body = R"({"model":"m","prompt":"x","max_tokens":3000,"stream":true})";
    peer.send(post("/v1/completions", body));
    const Reply stream = peer.read_reply();
    EXPECT_TRUE(stream.complete);
    EXPECT_EQ(text_of(parse_events(stream.body), 0), whole);
    peer.send(post("/v1/completions",
                   "{\"model\":\"m\",\"prompt\":\"" + std::string(300'000, 'a') + "\"}"));
    EXPECT_EQ(peer.read_reply().status, 200) << "a body of many records";
    peer.send(get("/health/live", "Connection: close\r\n"));
    EXPECT_EQ(peer.read_reply().status, 200);
    EXPECT_TRUE(peer.closed());
  }
}

void only_strong(Gateway& gateway, const Certificate& certificate) {
  for (const char* weak :
       {"AES128-SHA", "AES256-SHA", "AES128-SHA256", "AES128-GCM-SHA256", "AES256-GCM-SHA384",
        "ECDHE-ECDSA-AES128-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA384",
        "ECDHE-ECDSA-AES256-SHA384", "DHE-RSA-AES128-GCM-SHA256", "kRSA", "aNULL"}) {
    Peer peer(gateway.address());
    EXPECT_FALSE(peer.start_tls(certificate.cert, TLS1_2_VERSION, weak)) << weak;
  }
  for (const char* strong : {"ECDHE+AES128+AESGCM", "ECDHE+AES256+AESGCM", "ECDHE+CHACHA20"}) {
    Peer peer(gateway.address());
    EXPECT_TRUE(peer.start_tls(certificate.cert, TLS1_2_VERSION, strong)) << strong;
  }
}

TEST_F(Tls, CipherSuite_WithoutForwardSecrecyAndAead_IsRefused) {
  // A server with an RSA key could accept more kinds of ciphers than one with another key.
  for (const bool rsa : {true, false}) {
    const Certificate certificate = make_certificate("own", "", rsa);
    put(certificate);
    Gateway gateway({}, identity());
    only_strong(gateway, certificate);
  }
}

TEST_F(Tls, Handshake_WhenVersionIsOldOrCertificateUntrusted_Fails) {
  Gateway gateway({}, identity());
  Peer old(gateway.address());
  EXPECT_FALSE(old.start_tls(first.cert, TLS1_1_VERSION));
  Peer stranger(gateway.address());
  EXPECT_FALSE(stranger.start_tls(make_certificate("other").cert)) << "the test's own check works";
  EXPECT_EQ(gateway.client.submits(), 0);
}

TEST_F(Tls, ConsoleApi_WithTls_AcceptsOnlyItsHttpsOrigin) {
  Gateway gateway({}, identity());
  gateway.client.op_results["queue.stats"] = "{}";
  for (const auto& [scheme, status] : {std::pair{"https://", 200}, std::pair{"http://", 403}}) {
    Peer peer(gateway.address());
    ASSERT_TRUE(peer.start_tls(first.cert));
    peer.send("POST /console/api/queue.stats HTTP/1.1\r\nHost: " + gateway.address() +
              "\r\nOrigin: " + scheme + gateway.address() +
              "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
    EXPECT_EQ(peer.read_reply().status, status) << scheme;
  }
}

TEST_F(Tls, TlsPort_WhenPlainHttpArrives_Returns400NamingHttps) {
  Gateway gateway({}, identity());
  Peer peer(gateway.address());
  peer.send(get("/v1/models"));
  const Reply reply = peer.read_reply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("https://"), std::string::npos);
  EXPECT_TRUE(peer.closed());
}

TEST_F(Tls, TlsConnection_WhenNoiseOrTooSlow_IsClosed) {
  gateway::ServerLimits limits;
  limits.header_time = milliseconds(200);
  Gateway gateway(limits, identity());
  Peer noise(gateway.address());
  noise.send(std::string(3'000, '\xff'));
  EXPECT_TRUE(noise.closed());
  Peer silent(gateway.address());
  EXPECT_TRUE(silent.closed());
  Peer half(gateway.address());
  half.send(std::string("\x16\x03\x01\x01", 4));  // a record that never ends
  EXPECT_TRUE(half.closed());
  Peer idle(gateway.address());
  ASSERT_TRUE(idle.start_tls(first.cert));
  idle.send("GET /health/live HT");
  EXPECT_EQ(idle.read_reply().status, 408) << "the head's time counts from the connection's start";
  Peer good(gateway.address());
  ASSERT_TRUE(good.start_tls(first.cert));
  good.send(get("/health/live"));
  EXPECT_EQ(good.read_reply().status, 200);
}

TEST_F(Tls, TlsStream_WhenClientDisconnects_IsClosed) {
  Gateway gateway({}, identity());
  gateway.client.hold_tokens = true;
  {
    Peer peer(gateway.address());
    ASSERT_TRUE(peer.start_tls(first.cert));
    peer.send(post("/v1/completions", R"({"model":"m","prompt":"x","stream":true})"));
    gateway.client.wait_for([&] { return gateway.client.open_streams() == 1; });
  }
  gateway.client.wait_for([&] { return gateway.client.open_streams() == 0; });
  gateway.client.wait_for([&] { return gateway.server().connections() == 0; });
}

TEST_F(Tls, CertificateReload_WhenFilesChange_AcceptsOnlyAValidPair) {
  Gateway gateway({}, identity());
  Peer before(gateway.address());
  ASSERT_TRUE(before.start_tls(first.cert));
  const Certificate second = make_certificate("second");
  const auto answers = [&gateway](const Certificate& expected) {
    Peer peer(gateway.address());
    if (!peer.start_tls(expected.cert)) return false;
    peer.send(get("/health/live"));
    return peer.read_reply().status == 200;
  };
  write("cert.pem", second.cert);  // the key is still the first one's
  EXPECT_TRUE(answers(first));
  write("key.pem", second.key);
  EXPECT_TRUE(answers(second));
  EXPECT_FALSE(answers(first));
  before.send(get("/health/live"));
  EXPECT_EQ(before.read_reply().status, 200) << "open connections go on";
  write("cert.pem", "nothing");
  EXPECT_TRUE(answers(second));
  std::filesystem::remove(key());
  EXPECT_TRUE(answers(second));
}

TEST_F(Tls, TlsIdentity_WhenFilesAreInvalid_ReturnsTheReason) {
  EXPECT_NE(error(folder_ / "none.pem", key()).find("No such file"), std::string::npos);
  EXPECT_NE(error(cert(), folder_ / "none.pem").find("--tls-key"), std::string::npos);
  EXPECT_NE(error(folder_, key()).find("not a file"), std::string::npos);
  EXPECT_NE(error(key(), key()).find("--tls-cert " + key()), std::string::npos);
  EXPECT_NE(error(cert(), cert()).find("--tls-key " + cert()), std::string::npos);
  write("key.pem", make_certificate("other").key);
  EXPECT_NE(error(cert(), key()).find("mismatch"), std::string::npos) << error(cert(), key());
  const Certificate locked = make_certificate("locked", "secret");
  put(locked);
  EXPECT_NE(error(cert(), key()).find("without a passphrase"), std::string::npos);
  write("cert.pem", "");
  EXPECT_NE(error(cert(), key()).find("expected PEM"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::test::tls_test
