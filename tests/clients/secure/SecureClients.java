// The Java client with many logins, in one process: each argument is a name and a file of
// properties. One line of output a login: "ok", or the exception that refused it.

import java.io.FileInputStream;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class SecureClients {
    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < arguments.length; i += 2) {
            Properties login = new Properties();
            login.load(new FileInputStream(arguments[i + 1]));
            System.out.println(arguments[i] + " = " + outcome(login));
        }
    }

    static String outcome(Properties login) {
        try {
            return roundTrip(login, login.getProperty("topic"));
        } catch (ExecutionException failure) {
            return failure.getCause().getClass().getSimpleName();
        } catch (Exception failure) {
            return failure.getClass().getSimpleName();
        }
    }

    static String roundTrip(Properties login, String topic) throws Exception {
        login.put("default.api.timeout.ms", login.getProperty("patience"));
        login.put("request.timeout.ms", login.getProperty("patience"));
        try (Admin admin = Admin.create(login)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }
        var strings = new StringSerializer();
        try (var producer = new KafkaProducer<String, String>(login, strings, strings)) {
            producer.send(new ProducerRecord<>(topic, "hello")).get(60, TimeUnit.SECONDS);
        }
        login.put("group.id", topic);
        login.put("auto.offset.reset", "earliest");
        var values = new StringDeserializer();
        try (var consumer = new KafkaConsumer<String, String>(login, values, values)) {
            consumer.subscribe(List.of(topic));
            long until = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (System.nanoTime() < until) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                if (!records.isEmpty()) {
                    consumer.commitSync();
                    return records.iterator().next().value().equals("hello") ? "ok" : "other";
                }
            }
        }
        return "nothing";
    }
}
