#pragma once
// Messages between server and clients: one fixed record each, over a Unix socket that preserves
// record boundaries (SOCK_SEQPACKET), with a descriptor attached where there is one.

#include <cstdint>
#include <string>

namespace holdfast::weight_cache {

inline constexpr std::uint32_t kMagic = 0x48464931;  // "HFI1"
inline constexpr std::size_t kKeyBytes = 240;

/// The meaning of a message, and who sends it.
enum class Verb : std::uint32_t {
  kFind = 1,         // client: asks for an entry of exactly so many bytes
  kFound = 2,        // server, with its descriptor
  kNone = 3,         // server: there is none
  kPut = 4,          // client, with a descriptor; not answered
  kRelease = 5,      // client: ends its use of the entry; not answered
  kEvictUnused = 6,  // client: drops unused entries whose keys lack this text; kNone when done
};

/// One record of the socket, always of this size. `bytes` is the entry's length, `key` names it.
struct Message {
  std::uint32_t magic = kMagic;
  Verb verb = Verb::kFind;
  std::uint64_t bytes = 0;
  char key[kKeyBytes] = {};
};
static_assert(sizeof(Message) == 256);

/// Makes a message; a key is cut at kKeyBytes - 1 bytes. key_of() reads it back.
Message message_of(Verb verb, const std::string& key, std::uint64_t bytes);
std::string key_of(const Message& message);

/// Sends a message. False when the peer has gone or takes nothing. `passed` is a descriptor to send
/// along, -1: none.
bool send_message(int socket, const Message& message, int passed);
/// Receives a message. False when the peer has gone, nothing is there, or it is not a valid
/// message. `passed` is the descriptor that came along, which the caller owns; -1: none.
bool receive_message(int socket, Message& message, int& passed);

}  // namespace holdfast::weight_cache
