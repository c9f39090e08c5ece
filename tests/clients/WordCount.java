import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/** Counts words with exactly_once_v2, until the process is ended. */
public class WordCount {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("application.id", "word-count");
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("state.dir", args[1]);
        config.put("commit.interval.ms", "100");
        config.put("replication.factor", args[2]);
        config.put("consumer.auto.offset.reset", "earliest");
        config.put("default.key.serde", Serdes.String().getClass());
        config.put("default.value.serde", Serdes.String().getClass());
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to("counts", Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(
                failure -> StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.REPLACE_THREAD);
        streams.start();
        System.out.println("running");
        new CountDownLatch(1).await();
    }
}
