import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/** Copies records from one topic to another in transactions, until so many were copied. */
public class ExactlyOnceCopy {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], source = args[1], target = args[2];
        long wanted = Long.parseLong(args[3]);
        while (true) {
            try {
                if (live(bootstrap, source, target, wanted)) {
                    System.out.println("copied all");
                    return;
                }
            } catch (KafkaException failure) {
                System.out.println("starts again: " + failure);
            }
        }
    }

    private static boolean live(String bootstrap, String source, String target, long wanted) {
        Properties common = new Properties();
        common.put("bootstrap.servers", bootstrap);
        common.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        common.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        common.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        common.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        common.put("group.id", "java-copy");
        common.put("enable.auto.commit", "false");
        common.put("isolation.level", "read_committed");
        common.put("auto.offset.reset", "earliest");
        common.put("max.poll.records", "20");
        common.put("transactional.id", "java-copy");
        common.put("transaction.timeout.ms", "10000");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(common);
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(common)) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(300));
                if (records.isEmpty()) {
                    if (committed(consumer, source) >= wanted) {
                        return true;
                    }
                    continue;
                }
                producer.beginTransaction();
                try {
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    for (ConsumerRecord<String, String> record : records) {
                        producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                        offsets.put(
                                new TopicPartition(record.topic(), record.partition()),
                                new OffsetAndMetadata(record.offset() + 1));
                    }
                    producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                    untilDone(producer::commitTransaction);
                } catch (KafkaException failure) {
                    System.out.println("aborts: " + failure);
                    untilDone(producer::abortTransaction);
                    throw failure; // the positions are lost: begin again at the committed offsets
                }
            }
        }
    }

    /** After a timeout the same step must be tried again: whether it was done is not known. */
    private static void untilDone(Runnable step) {
        while (true) {
            try {
                step.run();
                return;
            } catch (TimeoutException timeout) {
                System.out.println("tries again: " + timeout);
            }
        }
    }

    private static long committed(KafkaConsumer<String, String> consumer, String source) {
        long sum = 0;
        for (OffsetAndMetadata each : consumer.committed(consumer.assignment()).values()) {
            sum += each == null ? 0 : each.offset();
        }
        return sum;
    }
}
