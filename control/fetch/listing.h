#pragma once
// The files of a source, as the hub or the registry tells. Their answers are bounded and trusted in
// nothing: names stay below the model's folder, and each hash is compared with the bytes.

#include <string>
#include <vector>

#include "control/fetch/session.h"
#include "shared/base/result.h"
#include "shared/pull/job.h"
#include "shared/pull/source.h"

namespace holdfast::fetch {

/// The files to be read, and where they go.
struct Listing {
  std::string folder;  // below the folder of models: "hf.co/ORG/REPO/0123456789ab"
  std::vector<pull::PullFile> files;
  std::string model;         // the file that is the model, below `folder`; empty: the folder itself
  std::string note;          // what a person should know; empty: nothing
  std::string profile;       // of a model of Ollama's (shared/profile); empty: none
  std::int64_t context = 0;  // tokens of a sequence that its parameters ask for; 0: none
};

/// Asks for the files of the source. kNotFound, kUnauthorized, kUnsupported (nothing that can be
/// run), kInvalidRequest (an answer that cannot be), kUnreachable (worth another try). Blocks.
Result<Listing> list_files(const pull::Source& source, Session& session);

}  // namespace holdfast::fetch
