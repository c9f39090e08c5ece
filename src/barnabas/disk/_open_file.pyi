from barnabas.disk.open_file import OpenFile as OpenFile
