#pragma once
// One etcd of a test, on loopback, with its data in a temporary directory.

#include <memory>
#include <string>

#include "tests/process/running.h"
#include "tests/process/test_server.h"

namespace holdfast::process {

class EtcdServer {
 public:
  /// Starts it and waits until it answers. False if it is not installed (build/tools).
  bool start();
  /// Ends it at once; start() has it again, with its data.
  void stop();
  const std::string& url() const { return url_; }

 private:
  TempDir dir_;
  std::string url_;
  std::string peer_url_;
  std::unique_ptr<Running> process_;
};

/// "127.0.0.1:PORT" that nobody uses now.
std::string free_address();

}  // namespace holdfast::process
