/* A program that may be killed whenever: it writes what it was given to a file, and when it is started again it
 * goes on after the last record that is whole.
 *
 *   resuming_client STATE MODEL PROMPT TOKENS KEY FILE
 *
 * A record is a line "NEXT HEX": the index of the next token (HOLDFAST_DONE at the end), and the text in hexadecimal digits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "holdfast.h"

static int fail(const char *what, holdfast_error *error) {
  fprintf(stderr, "%s: %s: %s\n", what, holdfast_error_code(error), holdfast_error_message(error));
  holdfast_error_free(error);
  return 1;
}

/* Returns the next token that is wanted: that of the last whole record; cuts off what follows it. */
static int64_t read_next(const char *path) {
  FILE *file = fopen(path, "r+");
  char line[1 << 16];
  int64_t next = 0;
  long whole = 0;
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strchr(line, '\n') == NULL) break;
    next = strtoll(line, NULL, 10);
    whole = ftell(file);
  }
  fclose(file);
  file = fopen(path, "r+");
  if (file != NULL) {
    if (ftruncate(fileno(file), whole) != 0) perror(path);
    fclose(file);
  }
  return next;
}

static void record(FILE *file, const holdfast_part *part) {
  size_t i;
  const int64_t next = part->finish != NULL ? HOLDFAST_DONE : part->index + part->id_count;
  fprintf(file, "%lld ", (long long)next);
  for (i = 0; i < part->text_size; ++i) fprintf(file, "%02x", (unsigned)(unsigned char)part->text[i]);
  fputc('\n', file);
  fflush(file);
}

int main(int argc, char **argv) {
  holdfast_error *error = NULL;
  holdfast_client *client;
  holdfast_stream *stream;
  holdfast_part part;
  FILE *file;
  char request[4096];
  char *id;
  int64_t next;
  int got;
  if (argc != 7) return 2;
  client = holdfast_open(argv[1], HOLDFAST_START, &error);
  if (client == NULL) return fail("open", error);
  snprintf(request, sizeof request,
           "{\"model\":\"%s\",\"prompt\":\"%s\",\"max_tokens\":%s,\"ignore_eos\":true,\"seed\":1,\"key\":\"%s\"}",
           argv[2], argv[3], argv[4], argv[5]);
  id = holdfast_submit(client, request, &error);
  if (id == NULL) return fail("submit", error);
  next = read_next(argv[6]);
  file = fopen(argv[6], "a");
  stream = holdfast_attach(client, id, &next, 1, &error);
  if (stream == NULL || file == NULL) return fail("attach", error);
  while ((got = holdfast_next(stream, -1, &part, &error)) == HOLDFAST_PART) record(file, &part);
  if (got != HOLDFAST_END) return fail("stream", error);
  fclose(file);
  holdfast_detach(stream);
  holdfast_free(id);
  holdfast_close(client);
  puts("ended");
  return 0;
}
