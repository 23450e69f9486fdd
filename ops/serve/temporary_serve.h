#pragma once
// A `holdfast serve` of our own for the time of one command, in a temporary state directory.

#include <sys/types.h>

#include <memory>
#include <string>

#include "shared/base/result.h"

namespace holdfast::cli {

/// A running `serve` with one model, ended with this object.
class TemporaryServe {
 public:
  /// Starts it with one model and waits until that is ready. Its errors appear on stderr.
  static Result<std::unique_ptr<TemporaryServe>> start(const std::string& model_name,
                                                       const std::string& model_path);
  ~TemporaryServe();  // SIGTERM, wait, remove the directory
  TemporaryServe(const TemporaryServe&) = delete;
  TemporaryServe& operator=(const TemporaryServe&) = delete;
  const std::string& state_dir() const { return state_dir_; }

 private:
  TemporaryServe(std::string state_dir, pid_t pid) : state_dir_(std::move(state_dir)), pid_(pid) {}
  std::string state_dir_;
  pid_t pid_;
};

}  // namespace holdfast::cli
