// RabbitMQ's Java client: a publisher with WINDOW publishes at a time, or a consumer; see __init__.py.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConfirmListener;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.zip.CRC32;

final class RabbitClient {
    private static final int WINDOW = 200;
    private static final int PLACES = 1 << 16;
    private static final int WARM_UP = 20_000;

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost(arguments[1]);
        factory.setPort(Integer.parseInt(arguments[2]));
        Connection connection = factory.newConnection();
        Channel channel = connection.createChannel();
        if (arguments[0].equals("publish")) {
            new Publisher(channel, arguments[3], Path.of(arguments[5]))
                    .publish(Double.parseDouble(arguments[4]));
        } else {
            consume(channel, arguments[3]);
        }
        connection.close();
    }

    private static void waitForStart() throws IOException {
        System.out.println("ready");
        while (System.in.read() != '\n') {}
    }

    private static long digest(byte[] body, int length) {
        CRC32 crc = new CRC32();
        crc.update(body, 40, length - 40);
        crc.update(body, 0, 32);
        return crc.getValue();
    }

    private static String hex(long value, int digits) {
        String text = Long.toHexString(value);
        return "0".repeat(digits - text.length()) + text;
    }

    private static final class Publisher implements ConfirmListener {
        private final Channel channel;
        private final String queue;
        private final List<String> sizes;
        private final byte[] tails;
        private final Semaphore room = new Semaphore(WINDOW);
        private final long[] sent = new long[PLACES];
        private final boolean[] isOpen = new boolean[PLACES];
        private long[] latencies = new long[1 << 16];
        private int confirmed;
        private long floor;

        Publisher(Channel channel, String queue, Path directory) throws IOException {
            this.channel = channel;
            this.queue = queue;
            this.sizes = Files.readAllLines(directory.resolve("sizes.txt"));
            this.tails = Files.readAllBytes(directory.resolve("tails.bin"));
            channel.confirmSelect();
            channel.addConfirmListener(this);
            // The compiler of the JVM knows the code that makes messages before the run.
            for (int number = 0; number < WARM_UP; number++) {
                body(number);
                properties(number);
            }
        }

        void publish(double seconds) throws Exception {
            waitForStart();
            long end = System.nanoTime() + (long) (seconds * 1e9);
            int published = 0;
            for (; System.nanoTime() < end; published++) {
                byte[] body = body(published);
                AMQP.BasicProperties properties = properties(published);
                room.acquire();
                long tag = channel.getNextPublishSeqNo();
                synchronized (this) {
                    sent[(int) (tag % PLACES)] = System.nanoTime();
                    isOpen[(int) (tag % PLACES)] = true;
                }
                channel.basicPublish("", queue, properties, body);
            }
            room.acquire(WINDOW);
            channel.basicPublish("", queue, null, "end".getBytes());
            channel.waitForConfirms();
            Arrays.sort(latencies, 0, confirmed);
            System.out.printf(
                    "{\"published\": %d, \"confirmed\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f}%n",
                    published, confirmed, at(50), at(99));
        }

        private double at(int percent) {
            return latencies[(int) (((long) confirmed * percent + 99) / 100) - 1] / 1e3;
        }

        private byte[] body(int number) {
            int size = Integer.parseInt(sizes.get(number % sizes.size()));
            byte[] body = new byte[size];
            byte[] head = (hex(number, 16) + hex(0, 16)).getBytes(StandardCharsets.US_ASCII);
            System.arraycopy(head, 0, body, 0, 32);
            System.arraycopy(tails, 0, body, 40, size - 40);
            byte[] digest = hex(digest(body, size), 8).getBytes(StandardCharsets.US_ASCII);
            System.arraycopy(digest, 0, body, 32, 8);
            return body;
        }

        private static AMQP.BasicProperties properties(int number) {
            Map<String, Object> headers = new HashMap<>();
            String id = hex(number, 32);
            headers.put("traceparent", "00-" + id + "-" + hex(number, 16) + "-01");
            headers.put("tenant", "tenant-" + number % 5000);
            headers.put("attempt", 1);
            return new AMQP.BasicProperties.Builder()
                    .contentType("application/octet-stream")
                    .deliveryMode(2)
                    .messageId(id)
                    .timestamp(new Date())
                    .correlationId(number % 3 == 0 ? id : null)
                    .headers(headers)
                    .build();
        }

        @Override
        public synchronized void handleAck(long tag, boolean multiple) {
            settle(tag, multiple, true);
        }

        @Override
        public synchronized void handleNack(long tag, boolean multiple) {
            settle(tag, multiple, false);
        }

        private void settle(long tag, boolean multiple, boolean isAck) {
            long now = System.nanoTime();
            for (long each = multiple ? floor + 1 : tag; each <= tag; each++) {
                int place = (int) (each % PLACES);
                if (!isOpen[place]) continue;
                isOpen[place] = false;
                if (isAck) {
                    if (confirmed == latencies.length) latencies = Arrays.copyOf(latencies, 2 * confirmed);
                    latencies[confirmed++] = now - sent[place];
                }
                room.release();
            }
            if (multiple) floor = Math.max(floor, tag);
        }
    }

    private static void consume(Channel channel, String queue) throws Exception {
        int[] counts = new int[3];
        CountDownLatch isOver = new CountDownLatch(1);
        channel.basicQos(WINDOW);
        channel.basicConsume(queue, false, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(
                    String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                    throws IOException {
                channel.basicAck(envelope.getDeliveryTag(), false);
                if (body.length == 3) {
                    isOver.countDown();
                    return;
                }
                String digits = new String(body, 0, 40, StandardCharsets.US_ASCII);
                if (Long.parseLong(digits.substring(32), 16) != digest(body, body.length)) counts[1]++;
                else if (Long.parseLong(digits.substring(0, 16), 16) != counts[0]) counts[2]++;
                counts[0]++;
            }
        });
        waitForStart();
        isOver.await();
        System.out.printf(
                "{\"received\": %d, \"corrupt\": %d, \"disordered\": %d}%n",
                counts[0], counts[1], counts[2]);
    }
}
