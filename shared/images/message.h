#pragma once
// What keeper and clients say to each other: one fixed record a message over a Unix socket that
// keeps records apart (SOCK_SEQPACKET), with a descriptor beside it where there is one.

#include <cstdint>
#include <string>

namespace holdfast::images {

inline constexpr std::uint32_t kMagic = 0x48464931;  // "HFI1"
inline constexpr std::size_t kKeyBytes = 240;

enum class Verb : std::uint32_t {
  kFind = 1,     // client: is there one, of exactly so many bytes?
  kFound = 2,    // keeper, with its descriptor
  kNone = 3,     // keeper
  kKeep = 4,     // client, with a descriptor; not answered
  kRelease = 5,  // client: I do not use it any more; not answered
  kMakeRoom =
      6,  // client: drop what nobody uses, but for keys that hold this text; kNone when done
};

struct Message {
  std::uint32_t magic = kMagic;
  Verb verb = Verb::kFind;
  std::uint64_t bytes = 0;
  char key[kKeyBytes] = {};
};
static_assert(sizeof(Message) == 256);

Message message_of(Verb verb, const std::string& key, std::uint64_t bytes);
std::string key_of(const Message& message);

/// False when the peer has gone or takes nothing. `passed`: a descriptor to send along, -1: none.
bool send_message(int socket, const Message& message, int passed);
/// False when the peer has gone, nothing is there, or it is no message of ours. `passed`: the
/// descriptor that came along, owned by the caller now; -1: none.
bool receive_message(int socket, Message& message, int& passed);

}  // namespace holdfast::images
