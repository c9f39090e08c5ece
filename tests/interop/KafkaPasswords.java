// Kafka's own password encoder. Arguments: the secret, "encode" or "decode", and a value.

import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.security.PasswordEncoder;

public class KafkaPasswords {
    public static void main(String[] arguments) throws Exception {
        PasswordEncoder encoder = PasswordEncoder.encrypting(
            new Password(arguments[0]), null, "AES/CBC/PKCS5Padding", 128, 4096);
        System.out.println(arguments[1].equals("encode")
            ? encoder.encode(new Password(arguments[2]))
            : encoder.decode(arguments[2]).value());
    }
}
