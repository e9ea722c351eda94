/* librabbitmq: a publisher with WINDOW publishes at a time, or a consumer; see __init__.py. */

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 200, PLACES = 1 << 16, CHANNEL = 1, LARGEST = 1 << 17 };

static uint32_t crc_table[256];

static void fail(const char *what) {
    fprintf(stderr, "%s failed\n", what);
    exit(1);
}

static void fill_crc_table(void) {
    for (uint32_t octet = 0; octet < 256; octet++) {
        uint32_t value = octet;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0xEDB88320 : value >> 1;
        crc_table[octet] = value;
    }
}

static uint32_t crc32_of(uint32_t crc, const uint8_t *octets, size_t count) {
    crc = ~crc;
    while (count--) crc = crc >> 8 ^ crc_table[(crc ^ *octets++) & 255];
    return ~crc;
}

static uint32_t digest_of(const uint8_t *body, size_t size) {
    return crc32_of(crc32_of(0, body + 40, size - 40), body, 32);
}

static uint64_t read_hex(const uint8_t *digits, int count) {
    char text[17] = {0};
    memcpy(text, digits, count);
    return strtoull(text, NULL, 16);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void wait_for_start(void) {
    char line[16];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) fail("the start");
}

static void check(amqp_connection_state_t connection, const char *what) {
    if (amqp_get_rpc_reply(connection).reply_type != AMQP_RESPONSE_NORMAL) fail(what);
}

static FILE *open_file(const char *directory, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    return file;
}

static int64_t sent[PLACES];
static char is_open[PLACES];
static int64_t *latencies;
static size_t confirmed, room_of_latencies;
static uint64_t settled_up_to, outstanding;

static void settle(uint64_t tag, int is_ack, int64_t now) {
    if (!is_open[tag % PLACES]) return;
    is_open[tag % PLACES] = 0;
    outstanding--;
    if (!is_ack) return;
    if (confirmed == room_of_latencies) {
        room_of_latencies = room_of_latencies ? 2 * room_of_latencies : 1 << 16;
        latencies = realloc(latencies, room_of_latencies * sizeof *latencies);
        if (!latencies) fail("realloc");
    }
    latencies[confirmed++] = now - sent[tag % PLACES];
}

static void read_confirm(amqp_connection_state_t connection) {
    amqp_frame_t frame;
    uint64_t tag;
    int is_multiple, is_ack;
    amqp_maybe_release_buffers(connection);
    if (amqp_simple_wait_frame(connection, &frame) != AMQP_STATUS_OK) fail("reading a confirm");
    if (frame.frame_type != AMQP_FRAME_METHOD) fail("a confirm");
    if (frame.payload.method.id == AMQP_BASIC_ACK_METHOD) {
        amqp_basic_ack_t *ack = frame.payload.method.decoded;
        tag = ack->delivery_tag, is_multiple = ack->multiple, is_ack = 1;
    } else if (frame.payload.method.id == AMQP_BASIC_NACK_METHOD) {
        amqp_basic_nack_t *nack = frame.payload.method.decoded;
        tag = nack->delivery_tag, is_multiple = nack->multiple, is_ack = 0;
    } else {
        fail("a confirm");
    }
    int64_t now = now_ns();
    for (uint64_t each = is_multiple ? settled_up_to + 1 : tag; each <= tag; each++)
        settle(each, is_ack, now);
    if (is_multiple && tag > settled_up_to) settled_up_to = tag;
}

static int compare(const void *one, const void *other) {
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static double percentile(int percent) {
    return latencies[(confirmed * percent + 99) / 100 - 1] / 1e3;
}

static void publish_body(
    amqp_connection_state_t connection, const char *queue, uint64_t number, const void *body, size_t size
) {
    char id[33], trace[64], tenant[32];
    snprintf(id, sizeof id, "%032llx", (unsigned long long)number);
    snprintf(trace, sizeof trace, "00-%s-%016llx-01", id, (unsigned long long)number);
    snprintf(tenant, sizeof tenant, "tenant-%llu", (unsigned long long)number % 5000);
    amqp_table_entry_t headers[3] = {
        {amqp_cstring_bytes("traceparent"), {.kind = AMQP_FIELD_KIND_UTF8}},
        {amqp_cstring_bytes("tenant"), {.kind = AMQP_FIELD_KIND_UTF8}},
        {amqp_cstring_bytes("attempt"), {.kind = AMQP_FIELD_KIND_I32, .value.i32 = 1}},
    };
    headers[0].value.value.bytes = amqp_cstring_bytes(trace);
    headers[1].value.value.bytes = amqp_cstring_bytes(tenant);
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG |
                  AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                  AMQP_BASIC_TIMESTAMP_FLAG,
        .content_type = amqp_cstring_bytes("application/octet-stream"),
        .headers = {3, headers},
        .delivery_mode = 2,
        .message_id = amqp_cstring_bytes(id),
        .timestamp = (uint64_t)time(NULL),
    };
    if (number % 3 == 0) {
        properties._flags |= AMQP_BASIC_CORRELATION_ID_FLAG;
        properties.correlation_id = properties.message_id;
    }
    amqp_bytes_t octets = {size, (void *)body};
    if (amqp_basic_publish(connection, CHANNEL, amqp_empty_bytes, amqp_cstring_bytes(queue), 0, 0,
                           &properties, octets) != AMQP_STATUS_OK)
        fail("publishing");
}

static void publish(
    amqp_connection_state_t connection, const char *queue, double seconds, const char *directory
) {
    static uint8_t tails[LARGEST], body[LARGEST];
    int *sizes = NULL;
    int count = 0, size;
    FILE *file = open_file(directory, "sizes.txt");
    while (fscanf(file, "%d", &size) == 1) {
        sizes = realloc(sizes, (count + 1) * sizeof *sizes);
        if (!sizes) fail("realloc");
        sizes[count++] = size;
    }
    fclose(file);
    file = open_file(directory, "tails.bin");
    if (!fread(tails, 1, sizeof tails, file) || !count) fail("reading the bodies");
    fclose(file);
    amqp_confirm_select(connection, CHANNEL);
    check(connection, "confirm.select");
    wait_for_start();
    uint64_t published = 0;
    for (int64_t end = now_ns() + (int64_t)(seconds * 1e9); now_ns() < end;) {
        /* The library has no thread of its own: confirms are read when the window is full. */
        while (outstanding >= WINDOW) read_confirm(connection);
        size = sizes[published % count];
        char head[41];
        snprintf(head, sizeof head, "%016llx%016x", (unsigned long long)published, 0);
        memcpy(body, head, 32);
        memcpy(body + 40, tails, size - 40);
        snprintf(head, sizeof head, "%08x", digest_of(body, size));
        memcpy(body + 32, head, 8);
        uint64_t tag = ++published;
        sent[tag % PLACES] = now_ns();
        is_open[tag % PLACES] = 1;
        outstanding++;
        publish_body(connection, queue, tag - 1, body, size);
    }
    while (outstanding) read_confirm(connection);
    publish_body(connection, queue, published, "end", 3);
    qsort(latencies, confirmed, sizeof *latencies, compare);
    printf("{\"published\": %llu, \"confirmed\": %zu, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
           (unsigned long long)published, confirmed, percentile(50), percentile(99));
    fflush(stdout);
}

static void consume(amqp_connection_state_t connection, const char *queue) {
    unsigned long received = 0, corrupt = 0, disordered = 0;
    amqp_basic_qos(connection, CHANNEL, 0, WINDOW, 0);
    check(connection, "basic.qos");
    amqp_basic_consume(connection, CHANNEL, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, 0,
                       amqp_empty_table);
    check(connection, "basic.consume");
    wait_for_start();
    for (int is_over = 0; !is_over;) {
        amqp_envelope_t envelope;
        amqp_maybe_release_buffers(connection);
        if (amqp_consume_message(connection, &envelope, NULL, 0).reply_type != AMQP_RESPONSE_NORMAL)
            fail("consuming");
        const uint8_t *body = envelope.message.body.bytes;
        size_t size = envelope.message.body.len;
        if (amqp_basic_ack(connection, CHANNEL, envelope.delivery_tag, 0)) fail("basic.ack");
        if (size == 3) {
            is_over = 1;
        } else {
            if (read_hex(body + 32, 8) != digest_of(body, size)) corrupt++;
            else if (read_hex(body, 16) != received) disordered++;
            received++;
        }
        amqp_destroy_envelope(&envelope);
    }
    printf("{\"received\": %lu, \"corrupt\": %lu, \"disordered\": %lu}\n", received, corrupt,
           disordered);
    fflush(stdout);
}

int main(int count, char **arguments) {
    if (count != 7) fail("reading the arguments");
    fill_crc_table();
    amqp_connection_state_t connection = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(connection);
    if (!socket || amqp_socket_open(socket, arguments[2], atoi(arguments[3]))) fail("connecting");
    if (amqp_login(connection, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest")
            .reply_type != AMQP_RESPONSE_NORMAL)
        fail("the login");
    amqp_channel_open(connection, CHANNEL);
    check(connection, "channel.open");
    if (!strcmp(arguments[1], "publish"))
        publish(connection, arguments[4], atof(arguments[5]), arguments[6]);
    else
        consume(connection, arguments[4]);
    amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(connection);
    return 0;
}
