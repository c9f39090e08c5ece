// Kafka's own records of consumer groups: each line on stdin is a message's name, version and JSON;
// each line on stdout is its bytes in hexadecimal, as they stand in a record: the version first.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;

public class KafkaRecords {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", 3);
            System.out.println(HexFormat.of().formatHex(
                written(parts[0], Short.parseShort(parts[1]), new ObjectMapper().readTree(parts[2]))));
        }
    }

    static byte[] written(String name, short version, JsonNode json) throws Exception {
        ApiMessage message = (ApiMessage) Class
            .forName("org.apache.kafka.coordinator.group.generated." + name + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class)
            .invoke(null, json, version);
        return MessageUtil.toVersionPrefixedBytes(version, message);
    }
}
