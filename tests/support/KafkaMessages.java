// Kafka's own serialisation: each line on stdin is a class of messages, a version and JSON; each
// line on stdout is the bytes in hexadecimal. Those of a record begin with the version.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class KafkaMessages {
    public static void main(String[] arguments) throws Exception {
        boolean areRecords = arguments.length > 0 && arguments[0].equals("--records");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", 3);
            short version = Short.parseShort(parts[1]);
            ApiMessage message = read(parts[0], version, new ObjectMapper().readTree(parts[2]));
            System.out.println(HexFormat.of().formatHex(areRecords
                ? MessageUtil.toVersionPrefixedBytes(version, message)
                : written(message, version)));
        }
    }

    static ApiMessage read(String name, short version, JsonNode json) throws Exception {
        return (ApiMessage) Class
            .forName(name + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class)
            .invoke(null, json, version);
    }

    static byte[] written(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        byte[] bytes = new byte[message.size(cache, version)];
        message.write(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), cache, version);
        return bytes;
    }
}
