System.setProperty("NAME", VALUE);
