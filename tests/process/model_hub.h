#pragma once
// A place to pull models from, on loopback: it behaves as the Hugging Face hub with its content
// network, as a registry that wants a token, and as a plain server of files, with the faults that a
// test asks for.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::process {

/// Faults of the server, from now on.
struct HubFaults {
  std::int64_t drop_after = 0;    // bytes of a body after which a connection is cut; 0: none
  std::int64_t bytes_s = 0;       // bandwidth of a connection; 0: no bound
  int status = 0;                 // answer to everything; 0: as it should be
  bool no_ranges = false;         // answers ranges with the whole
  bool other_bytes = false;       // sends other bytes than those of the hash
  bool more_bytes = false;        // sends more than it tells in the list
  bool wrong_range = false;       // sends another range than was asked for
  bool bad_names = false;         // lists a file outside of the folder
  bool no_hash = false;           // lists files without hashes
  bool token_for_tokens = false;  // the registry's server of tokens wants a token itself
  bool wants_token = false;       // the hub answers 401 without "hub-token"
};

/// The server. Thread-safe.
class ModelHub {
 public:
  ModelHub();
  ~ModelHub();
  ModelHub(const ModelHub&) = delete;

  /// Puts a file into a repository ("org/repo"), for the hub, the registry (as the one layer of the
  /// tag "latest") and as /files/NAME.
  void put(const std::string& repository, const std::string& path, const std::string& bytes);
  void set_faults(const HubFaults& faults);
  /// Cuts all connections and takes no more, until restart(): the machine is gone.
  void stop();
  void restart();

  std::string url() const { return "http://" + host(); }
  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  /// Bytes of files sent so far, of all connections.
  std::int64_t bytes_sent() const { return sent_; }
  int requests() const { return requests_; }

 private:
  struct Request {
    std::string path, query;
    std::map<std::string, std::string> headers;
  };
  void run();
  void serve(int fd);
  std::string answer_to(const Request& request, std::string* body, bool* is_file);
  std::string hub_list(const std::string& repository);
  std::string manifest(const std::string& repository);
  void send_file(int fd, const Request& request, const std::string& bytes);

  std::mutex mutex_;
  std::map<std::string, std::map<std::string, std::string>> repositories_;
  HubFaults faults_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> sent_{0};
  std::atomic<int> requests_{0};
  std::thread thread_;
  std::vector<std::thread> connections_;
};

/// SHA-256 of the bytes in hexadecimal digits.
std::string sha256_text(const std::string& bytes);

}  // namespace holdfast::process
