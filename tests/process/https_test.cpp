// Goal: `serve --tls-cert --tls-key` is HTTPS for curl, answers and streams alike, also after the
// gateway was killed; `--cors-origin` reaches the gateway; wrong values of these flags end `serve`
// at once, with the reason. Method: `holdfast serve` with the demo model; a certificate by
// openssl's program.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/process/test_server.h"

namespace holdfast::process::https_test {
namespace {

using nlohmann::json;

class Https : public testing::Test {
 protected:
  void SetUp() override {
    const Ended made = run_program({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                                    "/CN=holdfast", "-addext", "subjectAltName=IP:127.0.0.1",
                                    "-keyout", key, "-out", cert});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  Ended curl(std::vector<std::string> args) const {
    const std::vector<std::string> common = {
        "/usr/bin/curl", "-sS", "--cacert",      cert, "--retry-all-errors",
        "--retry",       "20",  "--retry-delay", "1"};
    args.insert(args.begin(), common.begin(), common.end());
    return run_program(args);
  }

  const TempDir dir;
  const std::string cert = dir.path() + "/cert.pem";
  const std::string key = dir.path() + "/key.pem";
  TestServer server{dir.path() + "/state"};
};

TEST_F(Https, Https_WithCurl_ServesAnswersAndStreams) {
  ASSERT_TRUE(server.start({"--model", "m=" + demo_model(), "--threads", "1", "--tls-cert", cert,
                            "--tls-key", key, "--cors-origin", "https://app.example"}))
      << server.errors();
  ASSERT_TRUE(server.url().starts_with("https://127.0.0.1:")) << server.url();
  const std::string url = server.url() + "/v1/completions";
  json body = {
      {"model", "m"}, {"prompt", "To be"}, {"max_tokens", 40}, {"seed", 3}, {"ignore_eos", true}};
  const Ended whole = curl({url, "-i", "-H", "Origin: https://app.example", "-d", body.dump()});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("Access-Control-Allow-Origin: https://app.example\r\n"),
            std::string::npos)
      << whole.out;
  const std::string text =
      json::parse(whole.out.substr(whole.out.find("\r\n\r\n") + 4))["choices"][0]["text"];
  body["stream"] = true;
  ASSERT_TRUE(server.kill_child("gateway"));
  const Ended stream = curl({url, "-N", "-d", body.dump()});
  ASSERT_EQ(stream.code, 0) << stream.err;
  std::string joined;
  std::istringstream lines(stream.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("data: {")) {
      joined += json::parse(line.substr(6))["choices"][0]["text"].get<std::string>();
    }
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Https, Serve_WithWrongTlsOrCorsFlags_EndsWithTheReason) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--tls-cert", cert}, "go together"},
      {{"--tls-cert", cert, "--tls-key", dir.path() + "/none"}, "No such file"},
      {{"--tls-cert", cert, "--tls-key", cert}, "--tls-key"},
      {{"--cors-origin", "app.example"}, "--cors-origin app.example"},
  };
  for (const auto& [flags, reason] : cases) {
    std::vector<std::string> args = {"holdfast", "--state", server.state(),
                                     "serve",    "--http",  "127.0.0.1:0"};
    args.insert(args.end(), flags.begin(), flags.end());
    const Ended ended = run_program(args);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_NE(ended.err.find(reason), std::string::npos) << ended.err;
  }
}

}  // namespace
}  // namespace holdfast::process::https_test
