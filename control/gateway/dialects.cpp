#include "control/gateway/dialects.h"

#include <utility>

#include "control/gateway/anthropic/message_stream.h"
#include "control/gateway/common/vectors.h"
#include "control/gateway/native/token_stream.h"
#include "control/gateway/ollama/ollama_stream.h"

namespace holdfast::gateway {
namespace {

class Dialects final : public AnswerForms {
 public:
  std::unique_ptr<EventWriter> stream(const Shape& shape, wire::RequestInfo info,
                                      const std::vector<std::int64_t>& resume_from) const override {
    if (shape.api == Api::kMessages) {
      return std::make_unique<MessageWriter>(shape, std::move(info), resume_from);
    }
    if (shape.api == Api::kTokens) {
      return std::make_unique<TokenWriter>(std::move(info), resume_from);
    }
    if (is_ollama(shape.api)) return std::make_unique<OllamaWriter>(shape, std::move(info));
    return std::make_unique<StreamRenderer>(shape, std::move(info), resume_from);
  }

  std::unique_ptr<WholeAnswer> whole(const Shape& shape, wire::RequestInfo info) const override {
    switch (shape.api) {
      case Api::kMessages:
        return std::make_unique<MessageCollector>(shape, std::move(info));
      case Api::kEmbeddings:
        return std::make_unique<VectorCollector>(shape, std::move(info));
      case Api::kOllamaEmbed:
      case Api::kOllamaEmbeddings:
        return std::make_unique<OllamaVectors>(shape, std::move(info));
      case Api::kOllamaChat:
      case Api::kOllamaGenerate:
      case Api::kOllamaRaw:
        return std::make_unique<OllamaCollector>(shape, std::move(info));
      default:
        return std::make_unique<Collector>(shape, std::move(info));
    }
  }
};

}  // namespace

const AnswerForms& answer_forms() {
  static const Dialects forms;
  return forms;
}

}  // namespace holdfast::gateway
