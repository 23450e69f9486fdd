// Goal: files that clients send by their hash become models that answer as the same file does;
// nothing else than the bytes of the hash is stored, whatever dies; others than operators send
// nothing. Method: a real server, raw HTTP with a length, in chunks, cut off, lying; the demo model
// as one file and as a folder; processes killed at random moments.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/http_stream.h"
#include "tests/process/model_hub.h"
#include "tests/process/small_disk.h"
#include "tests/process/test_server.h"

namespace holdfast::process::blobs_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;

std::string with_length(const std::string& digest, const std::string& bytes,
                        const std::string& headers = {}) {
  return "POST /api/blobs/" + digest + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" +
         headers + "Content-Length: " + std::to_string(bytes.size()) + "\r\n\r\n" + bytes;
}

/// The bytes in chunks of many lengths.
std::string in_chunks(const std::string& digest, const std::string& bytes) {
  std::string out = "POST /api/blobs/" + digest +
                    " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n";
  std::size_t length = 1;
  for (std::size_t at = 0; at < bytes.size(); length = length * 3 % 100'003) {
    const std::string part = bytes.substr(at, length);
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", part.size());
    out += size + part + "\r\n";
    at += part.size();
  }
  return out + "0\r\n\r\n";
}

class Blobs : public testing::Test {
 protected:
  bool start(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--http", "127.0.0.1:0"});
    return server_.start(flags);
  }
  HttpAnswer send(const std::string& request) const {
    return http_exchange(server_.url(), request);
  }
  int has(const std::string& digest) const {
    return send("HEAD /api/blobs/" + digest +
                " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        .status;
  }
  HttpAnswer create(const std::string& name, const json& files, json more = json::object()) const {
    more["model"] = name;
    more["files"] = files;
    return send(http_post_text("/api/create", more.dump()));
  }
  std::string text_of(const std::string& model) const {
    const json body = {{"model", model},
                       {"prompt", "To be"},
                       {"stream", false},
                       {"raw", true},
                       {"options", {{"num_predict", 12}, {"temperature", 0}}}};
    const HttpAnswer answer = send(http_post_text("/api/generate", body.dump()));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body, nullptr, false).value("response", answer.body);
  }
  /// Files below the folder of models that are no lock.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(server_.state() + "/models", error)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && name != ".lock") names.push_back(name);
    }
    return names;
  }
  void wait_for(const std::function<bool()>& done) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_TRUE(done());
  }

  TempDir dir_;
  const bool made_ = fs::create_directory(dir_.path() + "/disk");
  const std::string model_ = read_file(demo_model());
  const std::string digest_ = "sha256:" + sha256_text(model_);
  TestServer server_{dir_.path() + "/disk/s"};
};

TEST_F(Blobs, File_SentWithLengthOrInChunks_BecomesAModelWithTheSameText) {
  ASSERT_TRUE(start({"--model", "demo=" + demo_model()})) << server_.errors();
  EXPECT_EQ(has(digest_), 404);
  const HttpAnswer early = create("early", {{"m.gguf", digest_}});
  EXPECT_NE(early.body.find("was not sent to this server"), std::string::npos) << early.body;
  EXPECT_EQ(send(in_chunks(digest_, model_)).status, 201);
  EXPECT_EQ(has(digest_), 200);
  EXPECT_EQ(send(with_length(digest_, model_, "Expect: 100-continue\r\n")).status, 201);
  EXPECT_EQ(files(), std::vector<std::string>{"sha256-" + digest_.substr(7)});
  const HttpAnswer made = create("sent:latest", {{"m.gguf", digest_}},
                                 {{"system", "Arr"}, {"parameters", {{"num_ctx", 256}}}});
  EXPECT_EQ(made.status, 200);
  EXPECT_TRUE(made.body.ends_with("{\"status\":\"success\"}\n")) << made.body;
  EXPECT_EQ(text_of("sent"), text_of("demo"));
  const json model = json::parse(server_.cli({"--json", "models", "show", "sent"}).out);
  EXPECT_EQ(model["profile"]["system"], "Arr");
  EXPECT_EQ(model["context"], 256);
  const HttpAnswer quiet = create("sent2", {{"other name", digest_}}, {{"stream", false}});
  EXPECT_EQ(quiet.body, "{\"status\":\"success\"}");
  EXPECT_EQ(text_of("sent2"), text_of("demo"));
}

TEST_F(Blobs, Folder_SentFileByFile_BecomesAModelWithTheSameText) {
  const std::string folder = dir_.path() + "/folder";
  ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), folder}).code, 0);
  ASSERT_TRUE(start({"--model", "demo=" + folder})) << server_.errors();
  json names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string bytes = read_file(entry.path().string());
    const std::string digest = "sha256:" + sha256_text(bytes);
    ASSERT_EQ(send(with_length(digest, bytes)).status, 201);
    names[entry.path().filename().string()] = digest;
  }
  const HttpAnswer made = create("sent", names);
  EXPECT_TRUE(made.body.ends_with("{\"status\":\"success\"}\n")) << made.body;
  EXPECT_EQ(text_of("sent"), text_of("demo"));
  names["../../outside.json"] = digest_;
  const HttpAnswer outside = create("x", names);
  EXPECT_EQ(outside.status, 400) << outside.body;
  EXPECT_NE(outside.body.find("relative path"), std::string::npos) << outside.body;
}

TEST_F(Blobs, Blob_WhenItIsNotWhatItsHashSays_IsNotStored) {
  ASSERT_TRUE(start()) << server_.errors();
  const HttpAnswer other = send(with_length(digest_, model_ + "x"));
  EXPECT_EQ(other.status, 400) << other.body;
  EXPECT_NE(other.body.find("digest mismatch"), std::string::npos) << other.body;
  EXPECT_EQ(send(with_length("sha256:12", "x")).status, 400);
  EXPECT_EQ(send(with_length("sha256:" + std::string(64, 'A'), "x")).status, 400);
  EXPECT_EQ(send(with_length(digest_, model_, "Content-Encoding: gzip\r\n")).status, 415);
  std::string broken = in_chunks(digest_, model_);
  broken.replace(broken.size() - 5, 5, "zz\r\n\r\n");
  EXPECT_EQ(send(broken).status, 400);
  EXPECT_EQ(has(digest_), 404);
  const std::string nothing = "sha256:" + sha256_text("");
  EXPECT_EQ(send(with_length(nothing, "")).status, 201) << "an empty file is a file";
  EXPECT_EQ(has(nothing), 200);
  // A client that leaves in the middle leaves nothing.
  const std::string whole = with_length(digest_, model_);
  std::thread leaving([&] { send(whole.substr(0, whole.size() / 2)); });
  std::this_thread::sleep_for(milliseconds(300));
  ASSERT_TRUE(server_.kill_child("gateway"));
  wait_for([&] { return files().size() == 1; });
  leaving.join();
  EXPECT_EQ(create("x", json::object()).status, 400);
  EXPECT_EQ(create("x", {{"a", 1}}).status, 400);
  EXPECT_EQ(create("x", {{"a", "sha256:12"}}).status, 400);
  EXPECT_EQ(create("x", {{"a", digest_}}, {{"from", "demo"}}).status, 400);
}

TEST_F(Blobs, Blob_OfOthersThanOperators_IsRefusedBeforeItsBytes) {
  ASSERT_TRUE(start()) << server_.errors();
  const Ended made = server_.cli({"--json", "keys", "create", "who", "--role", "client"});
  const std::string key = json::parse(made.out).at("key");
  const std::string bearer = "Authorization: Bearer " + key + "\r\n";
  wait_for([&] { return has(digest_) == 401; });  // the gateway has read the keys
  EXPECT_EQ(send(with_length(digest_, model_)).status, 401);
  EXPECT_EQ(send(with_length(digest_, model_, bearer)).status, 403);
  EXPECT_TRUE(files().empty());
}

TEST_F(Blobs, Blob_FromAnotherProcessThanTheGateway_IsNotTaken) {
  ASSERT_TRUE(start()) << server_.errors();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = server_.state() + "/run/blobs.sock";
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), path.size());
  EXPECT_EQ(has(digest_), 404);  // the store is there
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string question = R"({"verb":"store","digest":"sha256:)" + sha256_text("x") + "\"}\nx";
  ASSERT_GT(::send(fd, question.data(), question.size(), MSG_NOSIGNAL), 0);
  shutdown(fd, SHUT_WR);
  char answer = 0;
  EXPECT_LE(recv(fd, &answer, 1, 0), 0) << "an answer";
  close(fd);
  EXPECT_TRUE(files().empty());
}

TEST_F(Blobs, Blob_OnAFullDisk_IsRefusedAndLeavesNothing) {
  const SmallDisk disk(dir_.path() + "/disk", "24m");
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  ASSERT_TRUE(start()) << server_.errors();
  disk.fill(static_cast<std::int64_t>(model_.size()) / 2);
  for (const std::string& request : {with_length(digest_, model_), in_chunks(digest_, model_)}) {
    const HttpAnswer full = send(request);
    EXPECT_EQ(full.status, 507) << full.body;
    EXPECT_NE(full.body.find("make room"), std::string::npos) << full.body;
  }
  EXPECT_TRUE(files().empty());
  disk.free();
  EXPECT_EQ(send(with_length(digest_, model_)).status, 201);
}

TEST_F(Blobs, Processes_KilledAtRandomMoments_LeaveWholeBlobsAndOneModel) {
  ASSERT_TRUE(start()) << server_.errors();
  std::atomic<bool> done = false;
  std::thread killer([&] {
    std::mt19937 random(20261128);
    for (int kill = 0; kill < 10 && !done; ++kill) {
      std::this_thread::sleep_for(milliseconds(100 + random() % 400));
      const char* const victims[] = {"fetcher", "gateway", "daemon"};
      server_.kill_child(victims[random() % std::size(victims)]);
    }
    done = true;
  });
  int sent = 0;
  for (int round = 0; round < 1'000 && (!done || sent == 0); ++round) {
    const HttpAnswer answer = send(in_chunks(digest_, model_));
    if (answer.status == 201) ++sent;
    EXPECT_TRUE(answer.status == 0 || answer.status == 201 || answer.status >= 500)
        << answer.status << answer.body;
    create("sent", {{"m.gguf", digest_}});
  }
  killer.join();
  HttpAnswer made;
  for (int round = 0; round < 100 && made.body.find("success") == std::string::npos; ++round) {
    std::this_thread::sleep_for(milliseconds(100));
    made = create("sent", {{"m.gguf", digest_}});
  }
  EXPECT_TRUE(made.body.ends_with("{\"status\":\"success\"}\n")) << made.body << server_.errors();
  EXPECT_EQ(files(), std::vector<std::string>{"sha256-" + digest_.substr(7)});
  EXPECT_EQ(sha256_text(read_file(server_.state() + "/models/blobs/" + files()[0])),
            digest_.substr(7));
  EXPECT_FALSE(text_of("sent").empty());
}

}  // namespace
}  // namespace holdfast::process::blobs_test
