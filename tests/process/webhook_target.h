#pragma once
// A receiver of webhooks: a small HTTP server on loopback that stores what it receives and answers
// as the test says.

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::process {

class WebhookTarget {
 public:
  struct ReceivedRequest {
    std::map<std::string, std::string> headers;  // names in lower case
    std::string path;
    std::string body;
  };
  /// Listens on the port; 0: any.
  explicit WebhookTarget(int port = 0);
  ~WebhookTarget();
  WebhookTarget(const WebhookTarget&) = delete;

  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/hook"; }
  /// Sets the status of each answer from now on.
  void answer(int status) { status_ = status; }
  /// All requests so far, once there are `count` of them; fewer when the patience is over.
  std::vector<ReceivedRequest> wait_for(std::size_t count, int patience_s = 60);

 private:
  void run();
  void serve(int fd);
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> status_{200};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::vector<ReceivedRequest> received_;
  std::thread thread_;
};

}  // namespace holdfast::process
